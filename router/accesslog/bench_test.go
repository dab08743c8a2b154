package accesslog

import (
	"log/slog"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/router/config"
)

// BenchmarkFormat is what a record costs in the goroutine that hands it over; 1 µs is 3 % of a core at 30,000 records a second.
func BenchmarkFormat(b *testing.B) {
	spliced := sample()
	spliced.UserAgent, spliced.Referer, spliced.Served = nil, nil, Spliced
	for _, bench := range []struct {
		name string
		f    format
	}{
		{"json", line{newFormat(config.LogJSON)}}, {"common", line{newFormat(config.LogCommon)}}, {"combined", line{newFormat(config.LogCombined)}},
		{"syslog", newMessage(newFormat(config.LogJSON), 23, overTCP, self())},
		{"otlp-logs", &otlp{signal: config.SignalLogs}}, {"otlp-spans", &otlp{signal: config.SignalSpans}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			r := spliced
			var buf []byte
			for b.Loop() {
				r.Time = r.Time.Add(33 * time.Microsecond)
				buf = bench.f.append(buf[:0], &r)
			}
		})
	}
}

// BenchmarkWrite is the whole way of a record into a file, in batches of a hundred: cpu-ns/op is the processor time of both goroutines
// and the kernel.
func BenchmarkWrite(b *testing.B) {
	cfg := &config.Config{Access: []config.AccessLog{{
		To: config.LogToFile, Path: b.TempDir() + "/access.log", Format: config.LogJSON, Sample: 1, Queue: 1 << 20,
	}}}
	w, err := Open(cfg, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	records := make([]Record, 100)
	for i := range records {
		records[i] = sample()
	}
	b.ReportAllocs()
	before := processorTime(b)
	n := 0
	for ; b.Loop(); n++ {
		if n%len(records) == 0 {
			for w.Stats()[0].Waiting > 1<<19 {
				time.Sleep(100 * time.Microsecond) // the pace is the file's
			}
			w.Write(records)
		}
	}
	w.Close()
	b.ReportMetric(float64(processorTime(b)-before)/float64(n), "cpu-ns/op")
}

func processorTime(b *testing.B) int64 {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// TestNoAllocations: a record that is handed over allocates nothing, in no format.
func TestNoAllocations(t *testing.T) {
	r := sample()
	for name, f := range map[string]format{
		"json": newFormat(config.LogJSON), "combined": newFormat(config.LogCombined), "syslog": newMessage(newFormat(config.LogJSON), 23, overTCP, self()),
		"otlp logs": &otlp{signal: config.SignalLogs}, "otlp spans": &otlp{signal: config.SignalSpans},
	} {
		buf := f.append(make([]byte, 0, 1<<16), &r)
		if n := testing.AllocsPerRun(100, func() {
			r.Time = r.Time.Add(time.Second)
			buf = f.append(buf[:0], &r)
		}); n != 0 {
			t.Errorf("%s: %v allocations a record", name, n)
		}
	}
}
