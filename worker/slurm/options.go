package slurm

import "strings"

// refused returns why a word of the user's directives is refused; "": it is not. sbatch accepts
// abbreviations, and ignores --help and the like in a script.
func refused(word string) string {
	name, _, _ := strings.Cut(word, "=")
	for option, why := range map[string]string{
		"-h": "it submits nothing", "--help": "it submits nothing", "--usage": "it submits nothing",
		"-V": "it submits nothing", "--version": "it submits nothing", "--test-only": "it submits nothing",
		"--wrap": "the script starts the worker",
		"-W":     "sbatch would not return before the workers end",
		"--wait": "sbatch would not return before the workers end",
	} {
		if name == option || len(name) > 2 && strings.HasPrefix(option, name) {
			return why
		}
	}
	return ""
}
