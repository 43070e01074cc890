package metric

import (
	"cmp"
	"slices"

	dto "github.com/prometheus/client_model/go"
)

// Source adds its present metrics to a set. It may be called concurrently.
type Source func(*Set)

// Set holds metrics. Its zero value is empty. Each combination of a name and of values of labels is
// added once, and a name has one help, one type, and the same labels everywhere.
type Set struct {
	families map[string]*dto.MetricFamily
}

// Counter adds a counter. Labels are names and values in turn, in order of the names.
func (s *Set) Counter(name, help string, v float64, labels ...string) {
	s.add(dto.MetricType_COUNTER, name, help, &dto.Metric{Counter: &dto.Counter{Value: &v}}, labels)
}

// Gauge adds a gauge, otherwise as Counter.
func (s *Set) Gauge(name, help string, v float64, labels ...string) {
	s.add(dto.MetricType_GAUGE, name, help, &dto.Metric{Gauge: &dto.Gauge{Value: &v}}, labels)
}

func (s *Set) add(t dto.MetricType, name, help string, m *dto.Metric, labels []string) {
	for i := 0; i < len(labels); i += 2 {
		m.Label = append(m.Label, &dto.LabelPair{Name: &labels[i], Value: &labels[i+1]})
	}
	f := s.families[name]
	if f == nil {
		f = &dto.MetricFamily{Name: &name, Help: &help, Type: &t}
		if s.families == nil {
			s.families = map[string]*dto.MetricFamily{}
		}
		s.families[name] = f
	}
	f.Metric = append(f.Metric, m)
}

// Families returns the metrics in order of their names and of the values of their labels.
func (s *Set) Families() []*dto.MetricFamily {
	var all []*dto.MetricFamily
	for _, f := range s.families {
		slices.SortFunc(f.Metric, func(a, b *dto.Metric) int {
			return slices.CompareFunc(a.Label, b.Label, func(a, b *dto.LabelPair) int {
				return cmp.Compare(a.GetValue(), b.GetValue())
			})
		})
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all
}
