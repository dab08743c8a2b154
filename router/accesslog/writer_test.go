package accesslog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/router/config"
)

// eventually polls until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("does not come about: %s", what)
		}
	}
}

// logged is what the router's own log has.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), s)
}

func open(t *testing.T, cfg *config.Config) (*Writer, *logged) {
	t.Helper()
	log := new(logged)
	w, err := Open(cfg, "1.2.3", slog.New(slog.NewTextHandler(io.MultiWriter(log, t.Output()), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w, log
}

func toFile(path string) config.AccessLog {
	return config.AccessLog{To: config.LogToFile, Path: path, Format: config.LogCommon, Sample: 1, Queue: 1 << 20}
}

func access(all ...config.AccessLog) *config.Config {
	return &config.Config{File: "router.yaml", Access: all}
}

// numbered are requests whose path is their number.
func numbered(from, to int) (all []Record) {
	for i := from; i < to; i++ {
		r := Record{Time: time.Unix(int64(i+1), 0), Client: sample().Client, Method: []byte("GET"), Path: fmt.Appendf(nil, "/%d", i), Version: HTTP11, Status: 200}
		binary.BigEndian.PutUint64(r.ID[8:], uint64(i+1))
		all = append(all, r)
	}
	return all
}

func lines(all []Record) string {
	f, out := line{newFormat(config.LogCommon)}, []byte(nil)
	for i := range all {
		out = f.append(out, &all[i])
	}
	return string(out)
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, _ := open(t, access(toFile(path)))
	began := time.Now()
	w.Write(numbered(0, 3))
	want := "before\n" + lines(numbered(0, 3))
	eventually(t, "the lines are in the file", func() bool { return content(t, path) == want })
	if took := time.Since(began); took > time.Second+500*time.Millisecond {
		t.Errorf("a line took %v, more than a second", took)
	}
	w.Write(numbered(3, 1000)) // records are the caller's again
	w.Close()
	w.Write(numbered(1000, 1001))
	if got, want := content(t, path), "before\n"+lines(numbered(0, 1000)); got != want {
		t.Errorf("after Close the file has %d bytes, want %d", len(got), len(want))
	}
}

// TestRenamed: a file that was renamed or removed is followed by a new one, and no line is lost or in both.
func TestRenamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	w, _ := open(t, access(toFile(path)))
	w.Write(numbered(0, 10))
	eventually(t, "the first lines are there", func() bool { return content(t, path) == lines(numbered(0, 10)) })
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is a new file", func() bool { _, err := os.Stat(path); return err == nil })
	w.Write(numbered(10, 20))
	eventually(t, "the next lines are in the new one", func() bool { return content(t, path) == lines(numbered(10, 20)) })
	if got := content(t, path+".1"); got != lines(numbered(0, 10)) {
		t.Errorf("the old file has %q", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&^0o640 != 0 {
		t.Errorf("the new file: %v, %v", info.Mode(), err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is a new file again", func() bool { _, err := os.Stat(path); return err == nil })
}

// TestReopen: what was logged before Reopen is in the old file.
func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	w, _ := open(t, access(toFile(path)))
	for i := range 20 {
		w.Write(numbered(10*i, 10*i+10))
		old := fmt.Sprintf("%s.%d", path, i)
		if err := os.Rename(path, old); err != nil {
			t.Fatal(err)
		}
		w.Reopen()
		eventually(t, "there is a new file", func() bool { _, err := os.Stat(path); return err == nil })
		if got := content(t, old); got != lines(numbered(10*i, 10*i+10)) {
			t.Fatalf("file %d has %q", i, got)
		}
	}
}

// TestDirectoryGone: records wait for a file that cannot be created, and are in it when it can.
func TestDirectoryGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "access.log")
	w, log := open(t, access(toFile(path)))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the trouble is reported", func() bool { return log.count("is not written") == 1 && w.Stats()[0].Err != nil })
	w.Write(numbered(0, 10))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lines are there", func() bool { return content(t, path) == lines(numbered(0, 10)) })
	eventually(t, "the end is reported", func() bool { return log.count("written again") == 1 && w.Stats()[0].Err == nil })
}

// TestFullDisk: a disk that takes nothing costs the newest records, which are counted, and stalls nobody.
func TestFullDisk(t *testing.T) {
	l := toFile("/dev/full")
	l.Queue = 64 << 10
	path := filepath.Join(t.TempDir(), "access.log")
	w, log := open(t, access(l, toFile(path)))
	const n = 5000
	w.Write(numbered(0, n))
	eventually(t, "the other file has all", func() bool { return content(t, path) == lines(numbered(0, n)) })
	eventually(t, "the trouble is reported", func() bool { return log.count("no space left") == 1 })
	w.Close()
	full := w.Stats()
	if full != nil {
		t.Errorf("a closed writer has outputs: %v", full)
	}
	if log.count("has lost records") == 0 {
		t.Error("lost records are not reported")
	}
}

// TestLostAreCounted: each record is written, waits, or is lost for a reason.
func TestLostAreCounted(t *testing.T) {
	l := toFile("/dev/full")
	l.Queue = 64 << 10
	w, _ := open(t, access(l))
	const n = 5000
	w.Write(numbered(0, n))
	one := len(lines(numbered(1000, 1001)))
	s := w.Stats()[0]
	if s.Lost["queue"] < uint64(n-2*l.Queue/(one-4)) || s.Written != 0 {
		t.Errorf("%+v of %d records that are each %d bytes", s, n, one)
	}
	o := w.now.Load().all[0]
	w.Close()
	s = o.stats()
	if s.Lost["queue"]+s.Lost["closing"] != n || s.Lost["closing"] == 0 {
		t.Errorf("%+v of %d records after the end", s, n)
	}
}

// stuck is a sink that does not come back until it is told to.
type stuck struct {
	entered, release chan struct{}
	once             sync.Once
}

func (s *stuck) deliver(_ context.Context, b *batch) error {
	s.once.Do(func() { close(s.entered) })
	<-s.release
	b.wrote(b.left())
	return nil
}
func (s *stuck) refresh(bool) error { return nil }
func (s *stuck) close() error       { return nil }

// TestStuckSink: a sink that hangs costs the producer nothing but what its queue does not hold, and Close returns.
func TestStuckSink(t *testing.T) {
	s := &stuck{entered: make(chan struct{}), release: make(chan struct{})}
	l := toFile("/nowhere")
	l.Queue = 64 << 10
	o := newOutput(l, line{newFormat(config.LogCommon)}, s, slog.New(slog.NewTextHandler(t.Output(), nil)))
	all := func(*Record) bool { return true }
	o.add(numbered(0, 2000), all)
	<-s.entered
	records := numbered(0, 1000)
	began := time.Now()
	for range 100 {
		o.add(records, all)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("100,000 records for a sink that hangs take %v", took)
	}
	if got := o.stats(); got.Lost["queue"] < 95_000 || got.Waiting < l.Queue || got.Waiting > l.Queue+100 {
		t.Errorf("%+v", got)
	}
	o.shut(10 * time.Millisecond) // returns, although the sink hangs
	close(s.release)
	<-o.done
	if got := o.stats(); got.Written+got.Lost["queue"]+got.Lost["closing"] != 102_000 {
		t.Errorf("%+v do not add up", got)
	}
}

// TestSample: outputs have the share that they ask for, the same requests in each, and errors always.
func TestSample(t *testing.T) {
	dir := t.TempDir()
	share := func(name string, sample float64, errors bool) config.AccessLog {
		l := toFile(filepath.Join(dir, name))
		l.Sample, l.Errors = sample, errors
		return l
	}
	w, _ := open(t, access(share("all", 1, false), share("tenth", 0.1, false), share("tenth too", 0.1, true), share("fifth", 0.2, false), share("errors", 0, true)))
	records := numbered(0, 10_000)
	failed := numbered(10_000, 10_100)
	for i := range failed {
		failed[i].Status = 503
	}
	w.Write(append(slices.Clone(records), failed...))
	skipped := w.Stats()[4].Skipped
	w.Close()
	read := func(name string) []string { return strings.SplitAfter(content(t, filepath.Join(dir, name)), "\n") }
	tenth := read("tenth")
	if n := len(read("all")) - 1; n != 10_100 {
		t.Errorf("all are %d", n)
	}
	if n := len(tenth); n < 900 || n > 1120 {
		t.Errorf("a tenth is %d of 10,100", n)
	}
	fifth := read("fifth")
	for _, l := range tenth {
		if !slices.Contains(fifth, l) {
			t.Fatalf("a line of a tenth is not among a fifth: %s", l)
		}
	}
	both := strings.Join(read("tenth too"), "")
	if !strings.HasSuffix(both, lines(failed)) || !strings.HasPrefix(strings.Join(tenth, ""), strings.TrimSuffix(both, lines(failed))) {
		t.Error("a tenth and errors are not the tenth, and all errors")
	}
	if got := strings.Join(read("errors"), ""); got != lines(failed) {
		t.Errorf("errors are %d bytes, want %d", len(got), len(lines(failed)))
	}
	if skipped != 10_000 {
		t.Errorf("%d are left out of the errors, want 10,000", skipped)
	}
}

// TestUpdate: outputs that stay are not touched, a VIP can be left out, and what fails changes nothing.
func TestUpdate(t *testing.T) {
	dir := t.TempDir()
	a, b, c := toFile(filepath.Join(dir, "a")), toFile(filepath.Join(dir, "b")), toFile(filepath.Join(dir, "none", "c"))
	w, _ := open(t, access(a, b))
	kept := w.now.Load().all[1]
	b.Line = 7
	next := access(b)
	quiet := netip.MustParseAddrPort("10.9.9.9:443")
	next.VIPs = []config.VIP{{Address: quiet, Unlogged: true}, {Address: netip.MustParseAddrPort("10.9.9.9:80")}}
	w.Write(numbered(0, 10))
	if err := w.Update(next); err != nil {
		t.Fatal(err)
	}
	if got := w.now.Load().all; len(got) != 1 || got[0] != kept {
		t.Error("an output that stays is another one")
	}
	if got := content(t, a.Path); got != lines(numbered(0, 10)) {
		t.Errorf("an output that has gone has %q", got)
	}
	hidden := numbered(10, 20)
	for i := range hidden {
		hidden[i].VIP = quiet
	}
	w.Write(hidden)
	w.Write(numbered(20, 30))
	c.Line = 9
	err := w.Update(access(a, c))
	if err == nil || !strings.HasPrefix(err.Error(), "router.yaml:9: log.access[1]: open ") {
		t.Errorf("a file in no directory: %v", err)
	}
	w.Write(numbered(30, 40))
	w.Close()
	if got := content(t, b.Path); got != lines(numbered(0, 10))+lines(numbered(20, 40)) {
		t.Errorf("the output that stays has %q", got)
	}
	if got := content(t, a.Path); got != lines(numbered(0, 10)) {
		t.Errorf("the output that has gone has %q", got)
	}
}

// TestNothing: without outputs nobody need make records.
func TestNothing(t *testing.T) {
	w, _ := open(t, access())
	if w.Enabled() || (&Writer{}).Enabled() {
		t.Error("enabled without an output")
	}
	w.Write(numbered(0, 1))
	w.Reopen()
	(&Writer{}).Write(numbered(0, 1))
	if err := w.Update(access(toFile(filepath.Join(t.TempDir(), "a")))); err != nil || !w.Enabled() {
		t.Errorf("not enabled with an output: %v", err)
	}
}

// TestManyProducers: each line is whole, and none is lost, whoever writes.
func TestManyProducers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	l := toFile(path)
	l.Queue = 1 << 30
	w, _ := open(t, access(l))
	var producers sync.WaitGroup
	for p := range 4 {
		producers.Go(func() {
			for i := range 100 {
				w.Write(numbered(p*1000+i*10, p*1000+i*10+10))
				if i%10 == 0 {
					w.Reopen()
				}
			}
		})
	}
	producers.Wait()
	w.Close()
	want := strings.SplitAfter(lines(slices.Concat(numbered(0, 1000), numbered(1000, 2000), numbered(2000, 3000), numbered(3000, 4000))), "\n")
	got := strings.SplitAfter(content(t, path), "\n")
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
}
