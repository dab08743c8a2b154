package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/openflow"
)

// message is an echo request that carries n.
func message(n int) []byte {
	b, err := openflow.Append(nil, uint32(n), &openflow.EchoRequest{Data: []byte(strings.Repeat("x", n%100))})
	if err != nil {
		panic(err)
	}
	return b
}

func record(n int) Record { return Record{time.Unix(1_700_000_000, int64(n)), message(n)} }

func records(from, to int) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for n := from; n < to && yield(record(n)); n++ {
		}
	}
}

func mustOpen(t testing.TB, path string) *Journal {
	t.Helper()
	j, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.file.Close() })
	return j
}

func mustAppend(t testing.TB, j *Journal, from, to int) {
	t.Helper()
	for r := range records(from, to) {
		if err := j.Append(r.Message, r.Time); err != nil {
			t.Fatal(err)
		}
	}
}

// wantRecords fails unless the journal holds the records from (included) to (not included), and its file no more.
func wantRecords(t testing.TB, j *Journal, from, to int) {
	t.Helper()
	var list []int
	for n := from; n < to; n++ {
		list = append(list, n)
	}
	wantList(t, j, list)
	if info, err := os.Stat(j.path); err != nil || info.Size() != j.Size() {
		t.Fatalf("%d bytes counted, on disk: %v %v", j.Size(), info, err)
	}
}

// wantList fails unless the journal holds these records.
func wantList(t testing.TB, j *Journal, list []int) {
	t.Helper()
	n := 0
	for got, err := range j.All() {
		if err != nil {
			t.Fatal(err)
		}
		if n == len(list) {
			t.Fatalf("more than %d records", n)
		}
		if want := record(list[n]); !got.Time.Equal(want.Time) || !bytes.Equal(got.Message, want.Message) {
			t.Fatalf("record %d: %v %x, want %v %x", n, got.Time, got.Message, want.Time, want.Message)
		}
		n++
	}
	if n != len(list) || j.Len() != n {
		t.Fatalf("%d records, %d counted; want %d", n, j.Len(), len(list))
	}
}

func TestAppendAndReplay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder", "journal")
	j := mustOpen(t, path)
	wantRecords(t, j, 0, 0)
	mustAppend(t, j, 0, 10)
	wantRecords(t, j, 0, 10)
	mustAppend(t, j, 10, 250)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = mustOpen(t, path)
	wantRecords(t, j, 0, 250)
	mustAppend(t, j, 250, 251)
	wantRecords(t, j, 0, 251)
	if j.Torn() != 0 {
		t.Errorf("%d bytes cut off", j.Torn())
	}
}

func TestAllEndsWhenAsked(t *testing.T) {
	j := mustOpen(t, filepath.Join(t.TempDir(), "journal"))
	mustAppend(t, j, 0, 5)
	for range j.All() {
		break
	}
	wantRecords(t, j, 0, 5)
}

func TestAppendRefuses(t *testing.T) {
	j := mustOpen(t, filepath.Join(t.TempDir(), "journal"))
	mustAppend(t, j, 0, 3)
	for name, m := range map[string][]byte{
		"nothing":      nil,
		"half":         message(50)[:20],
		"more":         append(message(50), 0),
		"length below": {4, 2, 0, 7, 0, 0, 0, 0},
	} {
		if err := j.Append(m, time.Now()); err == nil {
			t.Errorf("%s was appended", name)
		}
	}
	j.size = largest - 10
	if err := j.Append(message(1), time.Now()); !errors.Is(err, ErrFull) {
		t.Errorf("beyond the largest size: %v", err)
	}
	j.size = int64(len(magic)) + 3*headSize + 3*openflow.HeaderSize + 3
	wantRecords(t, j, 0, 3)
}

// TestTornTail: whatever the last record has lost, those before it are there and new ones follow them.
func TestTornTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := mustOpen(t, path)
	mustAppend(t, j, 0, 4)
	before := j.Size()
	mustAppend(t, j, 4, 5)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	j.file.Close()
	for size := int64(0); size < int64(len(whole)); size++ {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		j := mustOpen(t, path)
		left := j.Len()
		if size >= before && (left != 4 || j.Torn() != size-before) {
			t.Fatalf("cut to %d bytes: %d records, %d bytes cut off", size, left, j.Torn())
		}
		mustAppend(t, j, left, 6)
		wantRecords(t, j, 0, 6)
		j.file.Close()
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, content := range map[string]string{
		"text":            "name: edge\nports: [eth1]\n",
		"a short text":    "hi",
		"another version": "batonjn\x02 and more",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(path)
			if err == nil || !strings.Contains(err.Error(), path) || strings.Count(err.Error(), path) != 1 {
				t.Errorf("error %v", err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != content {
				t.Errorf("the file became %q, %v", got, err)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(file, "journal")); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("in a file: %v", err)
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := mustOpen(t, path)
	for _, when := range []string{"new", "rewritten"} {
		if _, err := Open(path); !errors.Is(err, ErrInUse) {
			t.Errorf("%s: a second one: %v", when, err)
		}
		if err := j.Rewrite(records(0, 3)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	wantRecords(t, mustOpen(t, path), 0, 3)
}

func TestRewrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := mustOpen(t, path)
	mustAppend(t, j, 0, 100)
	if err := j.Rewrite(records(90, 95)); err != nil {
		t.Fatal(err)
	}
	wantRecords(t, j, 90, 95)
	mustAppend(t, j, 95, 97)
	wantRecords(t, j, 90, 97)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	wantRecords(t, mustOpen(t, path), 90, 97)
}

func TestRewriteFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := mustOpen(t, path)
	mustAppend(t, j, 0, 7)
	bad := slices.Values([]Record{record(1), {Message: []byte("no message")}})
	if err := j.Rewrite(bad); err == nil {
		t.Error("no error")
	}
	if err := os.Mkdir(j.temporary(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := j.Rewrite(records(0, 1)); err == nil {
		t.Error("no error where a folder stands")
	}
	if j.floor <= smallest {
		t.Errorf("the next one is due at %d bytes", j.floor)
	}
	mustAppend(t, j, 7, 8)
	wantRecords(t, j, 0, 8)
}

// TestUnfinishedRewrite: a process that ends in a rewrite leaves the old journal in force.
func TestUnfinishedRewrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := mustOpen(t, path)
	mustAppend(t, j, 0, 7)
	j.file.Close()
	if err := os.WriteFile(j.temporary(), []byte(magic+"half a rec"), 0o600); err != nil {
		t.Fatal(err)
	}
	j = mustOpen(t, path)
	wantRecords(t, j, 0, 7)
	if _, err := os.Stat(j.temporary()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the unfinished file: %v", err)
	}
}

func TestDue(t *testing.T) {
	tests := []struct {
		name    string
		size    int64
		floor   int64
		records int
		live    int
		want    bool
	}{
		{"small", smallest, 0, 1000, 1, false},
		{"nothing live", smallest + 1, 0, 1, 0, true},
		{"four times", smallest + 1, 0, 400, 100, false},
		{"more", smallest + 1, 0, 401, 100, true},
		{"just rewritten", 2 * smallest, 4 * smallest, 1000, 1, false},
		{"grown since", 4*smallest + 1, 4 * smallest, 1000, 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := (&Journal{size: tt.size, floor: tt.floor, records: tt.records}).Due(tt.live); got != tt.want {
				t.Errorf("due: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestDiskFull: a record that does not fit leaves the journal as it was. A limit on the size of files stands for the disk.
func TestDiskFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := mustOpen(t, path)
	mustAppend(t, j, 0, 20)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	limit := before
	limit.Cur = uint64(j.Size()) + 15
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	err := j.Append(message(20), record(20).Time)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, unix.EFBIG) {
		t.Errorf("beyond the limit: %v", err)
	}
	wantRecords(t, j, 0, 20)
	mustAppend(t, j, 20, 22)
	wantRecords(t, j, 0, 22)
}

// TestKilled: what a process has appended is there after it was killed.
func TestKilled(t *testing.T) {
	const variable = "JOURNAL_TO_APPEND_TO"
	if path := os.Getenv(variable); path != "" {
		mustAppend(t, mustOpen(t, path), 0, 500)
		fmt.Println("appended")
		_, _ = io.Copy(io.Discard, os.Stdin) // until killed
		return
	}
	path := filepath.Join(t.TempDir(), "journal")
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), variable+"="+path)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, len("appended"))
	_, errRead := io.ReadFull(stdout, said)
	_, errLocked := Open(path)
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed
	if errRead != nil || string(said) != "appended" {
		t.Fatalf("the process said %q, %v", said, errRead)
	}
	if !errors.Is(errLocked, ErrInUse) {
		t.Errorf("while it ran: %v", errLocked)
	}
	wantRecords(t, mustOpen(t, path), 0, 500)
}
