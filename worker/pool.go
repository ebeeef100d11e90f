package worker

import (
	"container/list"
	"maps"
	"slices"
	"sync"
	"time"

	"toolsearch/subjects"
)

// task is one accepted request.
type task interface {
	// run does the work and answers, and does not panic. It is called once, on a goroutine of the pool.
	run()
	// refuse answers with a service error instead of doing the work.
	refuse(err *subjects.Error)
	// abandon answers with a service error for work that has begun and does not end.
	abandon(err *subjects.Error)
}

// poolOptions bound a [pool]. All are at least 1.
type poolOptions struct {
	places       int // tasks that run at once
	depth        int // tasks that wait
	tenantPlaces int // of the places, how many one tenant may hold
	tenantDepth  int // of the waiting tasks, how many one tenant may have
}

// share is a tenant's part of n places: at least one, and never the last one that others could take.
func share(n int, part float64) int {
	return max(1, min(int(float64(n)*part), n-1))
}

// pool runs tasks side by side, a bounded number of them, and lets a bounded number wait. Tenants take turns: a freed
// place goes to the next tenant in the ring that has a task waiting and a place left of its own share. It has a goroutine
// per running task, and a few that wait for one: a goroutine that ran a task has grown the stack that the next one needs.
//
// While a place is free, every tenant with a waiting task holds its full share; submit and next keep it so.
type pool struct {
	opts poolOptions

	mu      sync.Mutex
	lanes   map[string]*lane
	ring    list.List // of *lane: the tenants with waiting tasks, the next one in front
	running map[task]struct{}
	waiting int
	resting []chan turn // goroutines without a task, the latest last
	closed  bool
	idle    chan struct{} // closed once the pool is closed and empty
	mean    time.Duration // of a task's run, weighted towards the latest
}

// lane is one tenant's tasks.
type lane struct {
	tenant  string
	running int
	waiting []task
	elem    *list.Element // its place in the ring, nil while nothing waits
}

// turn is a task that has its place, and whose it is.
type turn struct {
	lane *lane
	task task
}

// maxResting is how many goroutines wait for a task at most.
const maxResting = 32

func newPool(o poolOptions) *pool {
	return &pool{opts: o, lanes: map[string]*lane{}, running: map[task]struct{}{}, idle: make(chan struct{})}
}

// submit takes a task or says why not: OVERLOADED with a hint when to come back, or UNAVAILABLE after close.
func (p *pool) submit(tenant string, t task) *subjects.Error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errDraining()
	}
	l := p.lanes[tenant]
	if l == nil {
		l = &lane{tenant: tenant}
		p.lanes[tenant] = l
	}
	switch {
	case len(p.running) < p.opts.places && l.running < p.opts.tenantPlaces:
		p.start(l, t)
	case p.waiting >= p.opts.depth:
		p.forget(l)
		return p.overloaded("this worker's queue is full")
	case len(l.waiting) >= p.opts.tenantDepth:
		return p.overloaded("this tenant's share of the worker's queue is full")
	default:
		l.waiting = append(l.waiting, t)
		p.waiting++
		if l.elem == nil {
			l.elem = p.ring.PushBack(l)
		}
	}
	return nil
}

func (p *pool) start(l *lane, t task) {
	l.running++
	p.running[t] = struct{}{}
	if last := len(p.resting) - 1; last >= 0 {
		p.resting[last] <- turn{l, t} // which has room for one
		p.resting = p.resting[:last]
		return
	}
	go p.work(turn{l, t}, make(chan turn, 1))
}

// work runs a task, and then whatever next gives the freed place to. Where there is nothing, it rests until a task comes
// to it through more, or that is closed.
func (p *pool) work(t turn, more chan turn) {
	for {
		for t.task != nil {
			began := time.Now()
			t.task.run()
			t.lane, t.task = p.next(t.lane, t.task, time.Since(began))
		}
		if !p.rest(more) {
			return
		}
		var open bool
		if t, open = <-more; !open {
			return
		}
	}
}

// rest reports whether a goroutine may wait for a task.
func (p *pool) rest(more chan turn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.resting) == maxResting {
		return false
	}
	p.resting = append(p.resting, more)
	return true
}

// next frees the place of a task that is done and hands it on.
func (p *pool) next(l *lane, done task, took time.Duration) (*lane, task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, done)
	l.running--
	p.mean += (took - p.mean) / 16
	p.forget(l)
	for e := p.ring.Front(); e != nil; e = e.Next() {
		n := e.Value.(*lane)
		if n.running >= p.opts.tenantPlaces {
			continue
		}
		t := p.pop(n)
		if n.elem != nil {
			p.ring.MoveToBack(n.elem)
		}
		n.running++
		p.running[t] = struct{}{}
		return n, t
	}
	p.settle()
	return nil, nil
}

func (p *pool) pop(l *lane) task {
	t := l.waiting[0]
	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	p.waiting--
	if len(l.waiting) == 0 {
		p.ring.Remove(l.elem)
		l.elem, l.waiting = nil, nil
	}
	return t
}

// forget drops a tenant that has nothing here.
func (p *pool) forget(l *lane) {
	if l.running == 0 && l.elem == nil {
		delete(p.lanes, l.tenant)
	}
}

func (p *pool) settle() {
	if p.closed && len(p.running) == 0 && p.waiting == 0 {
		select {
		case <-p.idle:
		default:
			close(p.idle)
		}
	}
}

// overloaded hints at the time that the queue needs to empty.
func (p *pool) overloaded(what string) *subjects.Error {
	wait := p.mean * time.Duration(p.waiting/p.opts.places+1)
	wait = max(50*time.Millisecond, min(wait, 5*time.Second))
	err := subjects.Errorf(subjects.CodeOverloaded, "%s; repeat the request in %d ms", what, wait.Milliseconds())
	err.RetryAfter = wait
	return err
}

// close lets in no more tasks. The channel it returns is closed when those that are in have run.
func (p *pool) close() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, more := range p.resting {
		close(more)
	}
	p.resting = nil
	p.settle()
	return p.idle
}

// refuse takes out what waits and answers that the worker is shutting down.
func (p *pool) refuse() {
	p.mu.Lock()
	var waiting []task
	for e := p.ring.Front(); e != nil; e = p.ring.Front() {
		l := e.Value.(*lane)
		waiting = append(waiting, p.pop(l))
		p.forget(l)
	}
	p.settle()
	p.mu.Unlock()
	for _, t := range waiting {
		t.refuse(errDraining())
	}
}

// abandon answers for what runs. It goes on running, and its own answer goes nowhere.
func (p *pool) abandon() {
	p.mu.Lock()
	running := slices.Collect(maps.Keys(p.running))
	p.mu.Unlock()
	for _, t := range running {
		t.abandon(errDraining())
	}
}

// load is how many tasks run and how many wait.
func (p *pool) load() (running, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.running), p.waiting
}

func errDraining() *subjects.Error {
	return subjects.Errorf(subjects.CodeUnavailable,
		"this worker is shutting down; repeat the request, and another worker answers it")
}
