package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"baton/router/config"
)

// fitful is a writer that takes some of what it gets, or nothing, and then fails.
type fitful struct {
	random *rand.Rand
	got    bytes.Buffer
}

func (f *fitful) Write(p []byte) (int, error) {
	if f.random.IntN(4) == 0 {
		return f.got.Write(p)
	}
	n := f.random.IntN(len(p))
	f.got.Write(p[:n])
	return n, syscall.ENOSPC
}

// TestTornWrites: however a disk breaks writes off, the lines in the file are those that were logged.
func TestTornWrites(t *testing.T) {
	for seed := range uint64(50) {
		f := &fitful{random: rand.New(rand.NewPCG(seed, 1))}
		s := &stream{w: f}
		records := numbered(0, 100)
		b := new(batch)
		for i := range records {
			b.add(line{newFormat(config.LogCommon)}, &records[i])
		}
		for b.left() > 0 {
			if err := s.deliver(t.Context(), b); err == nil && b.left() > 0 {
				t.Fatalf("seed %d: %d records are left without an error", seed, b.left())
			}
		}
		if f.got.String() != lines(records) || b.written != 100 {
			t.Fatalf("seed %d: %d bytes in the file, %d records written", seed, f.got.Len(), b.written)
		}
	}
}

// TestTornLineIsTrimmed: half a line is taken off a file that is left, so that it is not glued to the next.
func TestTornLineIsTrimmed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	s, err := openFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.f.WriteString("whole\nhal"); err != nil {
		t.Fatal(err)
	}
	s.torn = 3
	if err := s.close(); err != nil || content(t, path) != "whole\n" {
		t.Errorf("%q is left: %v", content(t, path), err)
	}
}

// TestPipe: a pipe whose reader is slow fails instead of waiting, and no line is torn.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openFile(path); !errors.Is(err, syscall.ENXIO) {
		t.Fatalf("a pipe without a reader: %v", err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	s, err := openFile(path)
	if err != nil {
		t.Fatal(err)
	}
	records, b := numbered(0, 2000), new(batch) // more than a pipe holds
	for i := range records {
		b.add(line{newFormat(config.LogCommon)}, &records[i])
	}
	if err := s.deliver(t.Context(), b); !errors.Is(err, os.ErrDeadlineExceeded) || b.left() == 0 || b.left() == 2000 {
		t.Fatalf("%d records are left: %v", b.left(), err)
	}
	got := make(chan string)
	go func() {
		all := make([]byte, len(lines(records)))
		for n := 0; n < len(all); {
			more, err := reader.Read(all[n:])
			if err != nil {
				break
			}
			n += more
		}
		got <- string(all)
	}()
	for b.left() > 0 {
		if err := s.deliver(t.Context(), b); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	if <-got != lines(records) {
		t.Error("the lines in the pipe are not those that were logged")
	}
}

// TestStdout runs itself again as a process with a standard output of its own: one that is read, and one whose reader has gone.
func TestStdout(t *testing.T) {
	const inner = "ACCESSLOG_STDOUT" // the file that says that the process has come to its end
	if survived := os.Getenv(inner); survived != "" {
		w, _ := open(t, access(config.AccessLog{To: config.LogToStdout, Format: config.LogCommon, Sample: 1, Queue: 1 << 20}))
		w.Write(numbered(0, 10))
		o := w.now.Load().all[0]
		eventually(t, "the output has tried", func() bool { s := o.stats(); return s.Written == 10 || s.Err != nil })
		w.Close()
		if err := os.WriteFile(survived, fmt.Append(nil, o.stats().Err), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	run := func(stdout *os.File) (end string) {
		end = filepath.Join(t.TempDir(), "end")
		cmd := exec.Command(os.Args[0], "-test.run=^TestStdout$")
		cmd.Env, cmd.Stdout = append(os.Environ(), inner+"="+end), stdout
		_ = cmd.Run() // its report may meet the broken pipe and end it; what counts is how far it came
		return content(t, end)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if end := run(w); end != "<nil>" {
		t.Errorf("with a reader: %q", end)
	}
	out := make([]byte, 1<<16)
	n, err := r.Read(out)
	if err != nil || !strings.Contains(string(out[:n]), lines(numbered(0, 10))) {
		t.Errorf("standard output has %q: %v", out[:n], err)
	}
	r.Close()
	if end := run(w); !strings.Contains(end, "broken pipe") {
		t.Errorf("without a reader: %q", end)
	}
}
