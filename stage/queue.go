package stage

// queue holds items in the order in which they are to be copied. An item that left it early stays
// in the slice but has another ticket by then, and is skipped.
type queue struct {
	items   []queuedItem
	first   int
	tickets uint64
	length  int // of items still queued
}

type queuedItem struct {
	it     *item
	ticket uint64
}

// enqueue queues an item, or leaves it to be read on request if the queue is full. mu is held.
func (p *Pool) enqueue(it *item) {
	if !p.stages() {
		p.setState(it, idle, nil)
		return
	}
	if p.queue.length >= p.o.MaxQueue {
		p.setState(it, idle, nil)
		p.count(countNotQueued, 1)
		return
	}
	p.queue.tickets++
	it.ticket = p.queue.tickets
	p.queue.items = append(p.queue.items, queuedItem{it, it.ticket})
	p.setState(it, queued, nil)
	p.startWorker()
}

// enqueueFirst queues an item before all others. mu is held.
func (p *Pool) enqueueFirst(it *item) {
	q := &p.queue
	q.tickets++
	it.ticket = q.tickets
	if q.first > 0 {
		q.first--
		q.items[q.first] = queuedItem{it, it.ticket}
	} else {
		q.items = append([]queuedItem{{it, it.ticket}}, q.items...)
	}
	p.setState(it, queued, nil)
	p.startWorker()
}

// dequeue returns the next item, whose state becomes running, or nil. mu is held.
func (p *Pool) dequeue() *item {
	q := &p.queue
	for q.first < len(q.items) {
		e := q.items[q.first]
		q.items[q.first] = queuedItem{}
		q.first++
		if q.first == len(q.items) {
			q.items, q.first = q.items[:0], 0
		} else if q.first > 1024 && q.first > len(q.items)/2 {
			n := copy(q.items, q.items[q.first:])
			clear(q.items[n:])
			q.items, q.first = q.items[:n], 0
		}
		if e.it.state == queued && e.it.ticket == e.ticket {
			p.setState(e.it, running, nil)
			return e.it
		}
	}
	return nil
}
