package focal

// momentRows are the rows of moments that a routine combines: the result and its two parts.
type momentRows struct{ result, a, b momentRow }

type momentRow struct{ mean, low, squares, count *float64 }

//go:noescape
func combineMomentsAVX(r *momentRows, n int, share, weight float64)

//go:noescape
func combineSomeMomentsAVX(r *momentRows, n int)
func deviationsAVX(d *float32, squares, mean *float64, n int, size float64)
func deviationsOfAVX(d *float32, squares, mean *float64, count *int32, n int)
func addProductsAVX(sum *float64, values *float32, n int, weight float64)

func (m moments) row(n int) momentRow {
	_, _ = m.low[n-1], m.squares[n-1]
	r := momentRow{mean: &m.mean[:n][0], low: &m.low[0], squares: &m.squares[0]}
	if m.count != nil {
		r.count = &m.count[:n][0]
	}
	return r
}

// combineMomentsFast combines rows with counts if they have them.
func combineMomentsFast(dst, a, b moments, share, weight float64) int {
	n := steps(len(dst.mean))
	if n == 0 {
		return 0
	}
	r := momentRows{dst.row(n), a.row(n), b.row(n)}
	if r.result.count == nil {
		combineMomentsAVX(&r, n, share, weight)
	} else {
		combineSomeMomentsAVX(&r, n)
	}
	return n
}

func deviationsFast[T Float](to []T, result moments, count []int32, size float64) int {
	d, ok := any(to).([]float32)
	n := steps(len(d))
	if !ok || n == 0 {
		return 0
	}
	_, _ = result.squares[n-1], result.mean[n-1]
	if count == nil {
		deviationsAVX(&d[0], &result.squares[0], &result.mean[0], n, size)
	} else {
		_ = count[n-1]
		deviationsOfAVX(&d[0], &result.squares[0], &result.mean[0], &count[0], n)
	}
	return n
}

func addProductsFast[T Float](sum []float64, values []T, weight float64) int {
	v, ok := any(values).([]float32)
	n := steps(len(sum))
	if !ok || n == 0 {
		return 0
	}
	_ = v[n-1]
	addProductsAVX(&sum[0], &v[0], n, weight)
	return n
}
