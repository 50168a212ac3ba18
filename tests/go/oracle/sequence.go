package oracle

import (
	"fmt"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// command is what the driver asks; durations are ns.
type command struct {
	Op       string        `json:"op"`
	Queue    string        `json:"queue"`   // of begin: workqueue or priorityqueue
	Limiter  string        `json:"limiter"` // of begin
	Keys     []string      `json:"keys"`
	Duration time.Duration `json:"duration"`
	Limited  bool          `json:"limited"`
	Priority int           `json:"priority"`
}

// answer is what the queue did, once all its goroutines had settled.
type answer struct {
	Len          int           `json:"len"`
	Waiting      bool          `json:"waiting"`  // a Get is blocked
	Draining     bool          `json:"draining"` // a ShutDownWithDrain is blocked
	ShuttingDown bool          `json:"shutting_down"`
	Claim        *claim        `json:"claim"` // what a Get returned, this or an earlier one
	Requeues     int           `json:"requeues"`
	Delay        time.Duration `json:"delay"` // the limiter's last
	Elapsed      time.Duration `json:"elapsed"`
	Figures      *figures      `json:"figures"`
	Error        string        `json:"error"`
}

type claim struct {
	Key      string        `json:"key"`
	Priority int           `json:"priority"`
	ShutDown bool          `json:"shut_down"`
	Latency  time.Duration `json:"latency"` // as the queue's metric tells it
	Requeues int           `json:"requeues"`
}

// sequence is the life of one queue in a bubble of fake time, with at most one Get that waits.
type sequence struct {
	queue    workqueue.TypedRateLimitingInterface[string]
	limiter  *recordingLimiter
	figures  *figures
	skew     time.Duration
	claims   chan *claim
	waiting  bool
	draining bool
	drained  chan struct{}
	began    time.Time
}

func newSequence(begin command) (*sequence, error) {
	s := &sequence{figures: &figures{}, claims: make(chan *claim, 1), drained: make(chan struct{}, 1), began: time.Now()}
	parsed, err := parseLimiter(begin.Limiter, &s.skew)
	if err != nil {
		return nil, err
	}
	s.limiter = &recordingLimiter{limiter: parsed}
	switch begin.Queue {
	case "workqueue":
		s.queue = workqueue.NewTypedRateLimitingQueueWithConfig(s.limiter,
			workqueue.TypedRateLimitingQueueConfig[string]{Name: "oracle", MetricsProvider: s.figures})
	case "priorityqueue":
		s.queue = priorityqueue.New("oracle", func(opts *priorityqueue.Opts[string]) {
			opts.RateLimiter, opts.MetricProvider = s.limiter, s.figures
		})
	default:
		return nil, fmt.Errorf("no queue %q", begin.Queue)
	}
	return s, nil
}

// do runs one operation, waits until every goroutine of the queue waits, and tells what can be seen.
func (s *sequence) do(c command) (a answer) {
	a.Error = s.try(c)
	synctest.Wait()
	s.collect(&a)
	a.Len, a.ShuttingDown = s.queue.Len(), s.queue.ShuttingDown()
	if len(c.Keys) > 0 {
		a.Requeues = s.queue.NumRequeues(c.Keys[0])
	}
	a.Waiting, a.Draining, a.Delay, a.Elapsed = s.waiting, s.draining, s.limiter.last, time.Since(s.began)
	if c.Op == "figures" {
		a.Figures = s.figures
	}
	return a
}

func (s *sequence) collect(a *answer) {
	select {
	case a.Claim = <-s.claims:
		s.waiting = false
		a.Claim.Latency = time.Duration(s.figures.Latency.Value*float64(time.Second) + 0.5)
		a.Claim.Requeues = s.queue.NumRequeues(a.Claim.Key)
	default:
	}
	select {
	case <-s.drained:
		s.draining = false
	default:
	}
}

// try runs an operation and returns how it panicked, if it did.
func (s *sequence) try(c command) (panicked string) {
	defer func() {
		if reason := recover(); reason != nil {
			panicked = fmt.Sprint(reason)
		}
	}()
	switch c.Op {
	case "get":
		s.waiting = true
		go s.get()
	case "step":
		s.step(c.Duration)
	case "skew":
		s.skew = c.Duration
	case "when":
		s.limiter.When(c.Keys[0])
	case "shut_down", "end":
		s.queue.ShutDown()
	case "shut_down_with_drain":
		s.draining = true
		go func() {
			s.queue.ShutDownWithDrain()
			s.drained <- struct{}{}
		}()
	case "add_with_opts":
		opts := priorityqueue.AddOpts{After: c.Duration, RateLimited: c.Limited, Priority: &c.Priority}
		s.queue.(priorityqueue.PriorityQueue[string]).AddWithOpts(opts, c.Keys...)
	case "begin", "look", "figures":
	default:
		for _, key := range c.Keys {
			s.each(c, key)
		}
	}
	return ""
}

func (s *sequence) each(c command, key string) {
	switch c.Op {
	case "add":
		s.queue.Add(key)
	case "add_after":
		s.queue.AddAfter(key, c.Duration)
	case "add_rate_limited":
		s.queue.AddRateLimited(key)
	case "done":
		s.queue.Done(key)
	case "forget":
		s.queue.Forget(key)
	default:
		panic("no operation " + c.Op)
	}
}

func (s *sequence) get() {
	var got claim
	if prioritised, ok := s.queue.(priorityqueue.PriorityQueue[string]); ok {
		got.Key, got.Priority, got.ShutDown = prioritised.GetWithPriority()
	} else {
		got.Key, got.ShutDown = s.queue.Get()
	}
	s.claims <- &got
}

// step lets time pass, but not beyond the moment at which a blocked Get returns.
func (s *sequence) step(duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case got := <-s.claims:
		s.claims <- got
	case <-timer.C:
	}
}
