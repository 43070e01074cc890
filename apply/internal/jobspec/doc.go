// Package jobspec describes jobs as plain values, without functions of the user and open files.
//
// The types of a job's fields ([Input], [Vector], [Output], [Controls]) have the same fields as
// those of package apply, which convert to them. Their documentation is there.
package jobspec
