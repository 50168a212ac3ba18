package oracle

import "k8s.io/client-go/util/workqueue"

// figures is a metrics provider that remembers: of gauges and counters the value, of histograms the last observation.
type figures struct {
	Depth, Adds, Retries, Latency, Work, Unfinished, Longest figure
}

type figure struct {
	Value float64 `json:"value"`
	Count int     `json:"count"` // of observations
}

func (f *figure) Inc()                  { f.Value++ }
func (f *figure) Dec()                  { f.Value-- }
func (f *figure) Set(value float64)     { f.Value = value }
func (f *figure) Observe(value float64) { f.Value, f.Count = value, f.Count+1 }

func (f *figures) NewDepthMetric(string) workqueue.GaugeMetric            { return &f.Depth }
func (f *figures) NewAddsMetric(string) workqueue.CounterMetric           { return &f.Adds }
func (f *figures) NewRetriesMetric(string) workqueue.CounterMetric        { return &f.Retries }
func (f *figures) NewLatencyMetric(string) workqueue.HistogramMetric      { return &f.Latency }
func (f *figures) NewWorkDurationMetric(string) workqueue.HistogramMetric { return &f.Work }
func (f *figures) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return &f.Unfinished
}
func (f *figures) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return &f.Longest
}
