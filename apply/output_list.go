package apply

import (
	"errors"
	"fmt"
	"maps"

	"leat/apply/outcome"
	"leat/ndarray"
)

// listItem returns the name of an output in a list, counted from 1.
func listItem(name string, number int) string { return fmt.Sprintf("%s[%d]", name, number) }

// addOutputLists adds the outputs of Job.OutputLists to Job.Outputs, under the names that
// [Block.SetOutList] uses.
func (j *Job) addOutputLists() error {
	if len(j.OutputLists) == 0 {
		return nil
	}
	all := maps.Clone(j.Outputs)
	if all == nil {
		all = map[string]Output{}
	}
	var errs []error
	for _, name := range sortedKeys(j.OutputLists) {
		if _, taken := j.Outputs[name]; taken {
			errs = append(errs, fmt.Errorf("output %s: both an output and a list", name))
		}
		if len(j.OutputLists[name]) == 0 {
			errs = append(errs, fmt.Errorf("output %s: an empty list", name))
		}
		for i, o := range j.OutputLists[name] {
			item := listItem(name, i+1)
			if _, taken := j.Outputs[item]; taken {
				errs = append(errs, fmt.Errorf("output %s: both an output and part of a list", item))
			}
			all[item] = o
		}
	}
	j.Outputs = all
	if len(errs) > 0 {
		return &outcome.JobError{Err: errors.Join(errs...)}
	}
	return nil
}

// SetOutList is SetOut for each output of a list in Job.OutputLists. It panics if list has another
// length.
func (b *Block) SetOutList(name string, list []*ndarray.Array) {
	outputs := b.names.outputs
	_, all := outputs[listItem(name, len(list))]
	if _, more := outputs[listItem(name, len(list)+1)]; !all || more {
		panic(fmt.Sprintf("%d arrays for the list of outputs %q, which has another length", len(list), name))
	}
	for i, a := range list {
		b.SetOut(listItem(name, i+1), a)
	}
}
