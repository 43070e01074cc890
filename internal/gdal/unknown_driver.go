package gdal

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"leat/internal/suggest"
)

// UnknownDriver returns an error about a name that no driver has, with suggestions of similar ones.
func UnknownDriver(all []Driver, name string) error {
	release, _ := Version()
	text := fmt.Sprintf("GDAL %s has no format %s", release, name)
	if similar := similarDrivers(all, name); similar != nil {
		text += ": is it " + strings.Join(similar, " or ") + "?"
	}
	return errors.New(text)
}

// similarDrivers returns up to three names of drivers that the user may have meant.
func similarDrivers(all []Driver, name string) (similar []string) {
	simple := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return -1
		}, strings.ToLower(s))
	}
	want := simple(name)
	if want == "" {
		return nil
	}
	for _, matches := range []func(d *Driver) bool{
		func(d *Driver) bool { return slices.Contains(d.Extensions, want) },
		func(d *Driver) bool { return suggest.Distance(simple(d.Name), want) <= 1+len(want)/8 },
		func(d *Driver) bool { return len(want) > 2 && strings.Contains(simple(d.LongName), want) },
	} {
		for _, d := range byDistance(all, func(d *Driver) int { return suggest.Distance(simple(d.Name), want) }) {
			if d.Write && len(similar) < 3 && !slices.Contains(similar, d.Name) && matches(&d) {
				similar = append(similar, d.Name)
			}
		}
	}
	return similar
}

// byDistance returns the drivers, the nearest first.
func byDistance(all []Driver, dist func(d *Driver) int) []Driver {
	return slices.SortedStableFunc(slices.Values(all), func(a, b Driver) int { return dist(&a) - dist(&b) })
}
