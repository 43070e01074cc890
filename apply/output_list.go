package apply

import (
	"errors"
	"fmt"
	"maps"

	"leat/ndarray"
)

// listItem returns the name of an output in a list, counted from 1.
func listItem(name string, number int) string { return fmt.Sprintf("%s[%d]", name, number) }

// withOutputLists returns Job.Outputs and the outputs of Job.OutputLists, under the names that
// [Block.SetOutList] uses.
func withOutputLists(job *Job) (map[string]Output, error) {
	if len(job.OutputLists) == 0 {
		return job.Outputs, nil
	}
	all := maps.Clone(job.Outputs)
	if all == nil {
		all = map[string]Output{}
	}
	var errs []error
	for _, name := range sortedKeys(job.OutputLists) {
		if _, taken := job.Outputs[name]; taken {
			errs = append(errs, fmt.Errorf("output %s: both an output and a list", name))
		}
		if len(job.OutputLists[name]) == 0 {
			errs = append(errs, fmt.Errorf("output %s: an empty list", name))
		}
		for i, o := range job.OutputLists[name] {
			item := listItem(name, i+1)
			if _, taken := job.Outputs[item]; taken {
				errs = append(errs, fmt.Errorf("output %s: both an output and part of a list", item))
			}
			all[item] = o
		}
	}
	if len(errs) > 0 {
		return all, &JobError{Err: errors.Join(errs...)}
	}
	return all, nil
}

// SetOutList is SetOut for each output of a list in Job.OutputLists. It panics if list has another
// length.
func (b *Block) SetOutList(name string, list []*ndarray.Array) {
	outputs := b.run.job.Outputs
	_, all := outputs[listItem(name, len(list))]
	if _, more := outputs[listItem(name, len(list)+1)]; !all || more {
		panic(fmt.Sprintf("%d arrays for the list of outputs %q, which has another length", len(list), name))
	}
	for i, a := range list {
		b.SetOut(listItem(name, i+1), a)
	}
}
