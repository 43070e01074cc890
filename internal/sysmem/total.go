package sysmem

// limitByCgroups returns the least of limit and the limits of this process's cgroups below root.
// Limits that can't be read are ignored.
func limitByCgroups(root string, limit int64) int64 {
	r := files{root}
	_ = r.eachCgroup(func(dir, _ string, v *cgroupVersion) error {
		if n, ok, err := r.number(dir + "/" + v.limit); ok && err == nil && n > 0 {
			limit = min(limit, n)
		}
		return nil
	})
	return limit
}
