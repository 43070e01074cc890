package expr

import "leat/internal/units"

// val is one band of a value: a vector to be computed, or a constant.
type val struct {
	t    typ
	node int  // of a vector
	mask int  // node of its validity; 0 is always valid
	nan  bool // may be NaN where the mask is valid

	konst bool
	c     float64 // of a constant
	weak  bool    // a constant that takes the class of the other operand: all but float32(…) and float64(…)

	// chosen is the selection that the value is; nil for a computed one.
	chosen *selection
}

// value is the value of an expression: the bands of one file, or a list of files.
type value struct {
	list  bool
	items [][]val   // one item unless list
	times *timeline // of a list, if known
	from  string    // the input that a list comes from
}

func single(v val) value { return value{items: [][]val{{v}}} }

func (v value) bands() []val { return v.items[0] }

// zip applies f band by band and, if there are lists among the values, item by item. A value with
// one band, or that is not a list, is used for all.
func (c *compiler) zip(pos int, f func([]val) (val, error), vs ...value) (value, error) {
	items, list, from := 1, false, ""
	var times *timeline
	for _, v := range vs {
		if !v.list {
			continue
		}
		if list && len(v.items) != items {
			return value{}, c.fail(pos, "%s has %s, %s has %d, expected equally many: pick one with name[i], or reduce a list, as in median(%s)",
				from, units.Plural(int64(items), "file", "files"), v.from, len(v.items), v.from)
		}
		if !list {
			list, items, from = true, len(v.items), v.from
		}
		times = times.merge(v.times)
	}
	out := value{list: list, times: times, from: from}
	for i := range items {
		args := make([][]val, len(vs))
		bands := 1
		for j, v := range vs {
			if v.list {
				args[j] = v.items[i]
			} else {
				args[j] = v.items[0]
			}
			if n := len(args[j]); n != 1 {
				if bands != 1 && n != bands {
					return value{}, c.fail(pos, "%d bands with %d bands: pick bands with name[i]", bands, n)
				}
				bands = n
			}
		}
		row := make([]val, bands)
		for b := range bands {
			one := make([]val, len(vs))
			for j, a := range args {
				if len(a) == 1 {
					one[j] = a[0]
				} else {
					one[j] = a[b]
				}
			}
			r, err := f(one)
			if err != nil {
				return value{}, err
			}
			row[b] = r
		}
		out.items = append(out.items, row)
		if err := c.bounded(pos); err != nil {
			return value{}, err
		}
	}
	return out, nil
}
