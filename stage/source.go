package stage

import "leat/objstore"

// Source is where objects are copied from. An [objstore.Bucket] is one; so is anything that reads objects by name.
type Source = objstore.Source

// SourceInfo tells where a value comes from.
type SourceInfo struct {
	Source string   // the object, as a URL without secrets
	Index  int64    // of the sample in its dataset; -1: not known
	Shard  string   // the part of the dataset that it is in, if the source has parts
	Files  []string // names of the files that it was made of
}

// Describer is a Source that knows more of its objects than their names.
type Describer interface {
	Describe(name string) SourceInfo
}

// describe is what is known of where an object comes from.
func describe(src Source, name string) SourceInfo {
	if d, ok := src.(Describer); ok {
		return d.Describe(name)
	}
	return SourceInfo{Source: src.ID(name), Index: -1, Files: []string{name}}
}
