package stage

import (
	"fmt"
	"time"
)

// spent notes processor and clock time for each object.
func (b *bench) spent(what string, e epoch) {
	each := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / float64(b.objects) }
	b.add(costTable, what, costBoth, each(e.User+e.System))
	b.add(costTable, what, costUser, each(e.User))
	b.add(costTable, what, costSystem, each(e.System))
	b.add(costTable, what, costClock, each(e.Took))
}

// cost measures processor time with a source in the process that does not wait.
func (b *bench) cost(p place) error {
	err := b.in(p, func(dir string) error {
		t := b.small(opStage, dir)
		t.Epochs = 2
		a, err := b.one("cost-"+p.name+".prof", t)
		if err != nil {
			return err
		}
		b.spent(fmt.Sprintf(costAll, p.name), a.Epochs[0])
		same := a.Epochs[1]
		t.Epochs = 1
		if a, err = b.one("cost-again-"+p.name+".prof", t); err != nil {
			return err
		}
		b.spent(fmt.Sprintf(costSame, p.name), same)
		b.spent(fmt.Sprintf(costNew, p.name), a.Epochs[0])
		return nil
	})
	if err != nil {
		return err
	}
	err = b.in(p, func(dir string) error {
		t := b.small(opInto, dir)
		t.Epochs = 2
		a, err := b.one("cost-into-"+p.name+".prof", t)
		if err != nil {
			return err
		}
		b.spent(fmt.Sprintf(costInto, p.name), a.Epochs[0])
		b.spent(fmt.Sprintf(costIntoSame, p.name), a.Epochs[1])
		return nil
	})
	if err != nil {
		return err
	}
	for _, x := range []struct{ op, line string }{{opRecycled, costRecycled}, {opCopy, costCopy},
		{opPlain, costPlain}, {opWrite, costWrite}, {opAlone, costAlone}, {opRead, costRead},
		{opReuse, costReuse}} {
		err := b.in(p, func(dir string) error {
			a, err := b.one("cost-"+x.op+"-"+p.name+".prof", b.small(x.op, dir))
			if err == nil {
				b.spent(fmt.Sprintf(x.line, p.name), a.Epochs[0])
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if p != b.places[0] {
		return nil
	}
	a, err := b.one("cost-get.prof", b.small(opGet, p.dir))
	if err == nil {
		b.spent(costGet, a.Epochs[0])
	}
	return err
}

// wire measures processor time of a client of a server in another process.
func (b *bench) wire() error {
	for _, x := range []struct{ op, line string }{{opStage, costWire}, {opInto, costWireInto}, {opGet, costObjstore},
		{opPlain, costPlainNet}, {opBare, costBare}, {opBareIn, costBareIn}} {
		err := b.served(serverTask{}, func(s *server) error {
			return b.in(b.places[0], func(dir string) error {
				t := b.small(x.op, dir)
				t.URL = s.url
				a, err := b.one("wire-"+x.op+".prof", t)
				if err != nil {
					return err
				}
				b.spent(x.line, a.Epochs[0])
				return s.expect(int64(b.objects))
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
