package stage

import "leat/objstore"

// Source is where objects are copied from: an [objstore.Bucket], or anything else that reads
// objects by name.
type Source = objstore.Source

// SourceInfo describes the origin of a value.
type SourceInfo struct {
	Source string   // URL of the object, without secrets
	Index  int64    // of the sample in its dataset; -1: unknown
	Shard  string   // the part of the dataset that contains it, if there are parts
	Files  []string // names of the files that it was made from
}

// Describer is a Source that knows more about its objects than their names.
type Describer interface {
	Describe(name string) SourceInfo
}

// describe returns the origin of an object.
func describe(src Source, name string) SourceInfo {
	if d, ok := src.(Describer); ok {
		return d.Describe(name)
	}
	return SourceInfo{Source: src.ID(name), Index: -1, Files: []string{name}}
}
