package main

import "github.com/spf13/pflag"

// listValue is the value of an option that may be repeated: pflag's stringArray, without the CSV
// writer of 4 KiB that pflag makes for the text of each empty default.
type listValue struct {
	list  *[]string
	given bool
}

// addList adds an option that may be repeated, which is empty by default.
func addList(fl *pflag.FlagSet, list *[]string, name, shorthand, usage string) {
	fl.VarP(&listValue{list: list}, name, shorthand, usage)
}

func (v *listValue) Type() string { return "stringArray" }

func (v *listValue) Set(text string) error {
	if !v.given {
		*v.list, v.given = nil, true
	}
	*v.list = append(*v.list, text)
	return nil
}

// String returns the list as pflag reads it: [ and ] around fields of CSV.
func (v *listValue) String() string {
	if len(*v.list) == 0 {
		return "[]"
	}
	return stringArray(*v.list).String()
}

func (v *listValue) Append(text string) error {
	*v.list = append(*v.list, text)
	return nil
}

func (v *listValue) Replace(list []string) error {
	*v.list = append([]string(nil), list...)
	return nil
}

func (v *listValue) GetSlice() []string { return append([]string{}, *v.list...) }

// stringArray returns pflag's own value of a list.
func stringArray(list []string) pflag.Value {
	fl := pflag.NewFlagSet("", pflag.ContinueOnError)
	fl.StringArray("list", list, "")
	return fl.Lookup("list").Value
}
