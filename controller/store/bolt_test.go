package store

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"baton/api"
)

func open(t testing.TB, c Config) *Store {
	t.Helper()
	if c.Name == "" {
		c.Name = "c1"
	}
	s, err := Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func handoff(id uint64) Handoff {
	return Handoff{ID: id, Client: netip.MustParseAddrPort("10.1.0.2:40000"), Surrogate: "se1", Session: json.RawMessage(`{"id":7}`)}
}

var compare = cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{})

func eventually(t testing.TB, within time.Duration, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// TestFile: what was written is there after a restart, for the owner alone, in a greater generation.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "controller.db")
	weight := 7
	s := open(t, Config{File: path})
	first := s.Term()
	if !first.Master || first.Generation != 1 || first.Holder != "c1" {
		t.Errorf("%+v", first)
	}
	if err := s.Surrogates.Put(t.Context(), Surrogate{Name: "se1", Weight: &weight, State: "maintenance"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Surrogates.Put(t.Context(), Surrogate{Name: "se2"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Surrogates.Delete(t.Context(), "se2"); err != nil {
		t.Fatal(err)
	}
	for id := range uint64(300) { // three batches
		s.Handoffs.Record(handoff(id))
	}
	s.Handoffs.Record(handoff(300))
	s.Handoffs.Forget(300)
	s.Handoffs.Forget(0)
	s.Hosts.Record(Host{MAC: "02:00:00:00:00:01", Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.2")}, At: api.ControllerPoint{Switch: "0000000000000001", Port: 3}})
	if _, ok := s.Handoffs.Get(0); ok || len(s.Handoffs.All()) != 299 {
		t.Errorf("at once: %v, %d", ok, len(s.Handoffs.All()))
	}
	hosts := s.Hosts.All()
	if _, err := Open(t.Context(), Config{File: path}); err == nil || !strings.Contains(err.Error(), "another process has "+path) {
		t.Errorf("a second time: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}

	s = open(t, Config{File: path})
	defer s.Close()
	if got := s.Term().Generation; got != 2 {
		t.Errorf("generation %d, want 2", got)
	}
	if diff := cmp.Diff([]Surrogate{{Name: "se1", Weight: &weight, State: "maintenance"}}, s.Surrogates.All()); diff != "" {
		t.Error(diff)
	}
	all := s.Handoffs.All()
	if len(all) != 299 || !slices.IsSortedFunc(all, func(a, b Handoff) int { return int(a.ID) - int(b.ID) }) {
		t.Errorf("%d handoffs", len(all))
	}
	if diff := cmp.Diff(handoff(1), all[0], compare); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(hosts, s.Hosts.All(), compare); diff != "" {
		t.Error(diff)
	}
	if status := s.Status(); status.Kind != "file" || !status.Answers || status.Pending != 0 {
		t.Errorf("%+v", status)
	}
}

// TestFileRaise: the generation passes one that a switch has seen, stays so, and is announced.
func TestFileRaise(t *testing.T) {
	path := filepath.Join(t.TempDir(), "controller.db")
	var mu sync.Mutex
	var terms []Term
	s := open(t, Config{File: path, Mastered: func(now Term) {
		mu.Lock()
		defer mu.Unlock()
		terms = append(terms, now)
	}})
	last := func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		if len(terms) == 0 {
			return 0
		}
		return terms[len(terms)-1].Generation
	}
	eventually(t, 5*time.Second, "the first is announced", func() bool { return last() == 1 })
	if err := s.Raise(500); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the second is announced", func() bool { return last() == 501 })
	if err := s.Raise(3); err != nil { // it never sinks
		t.Fatal(err)
	}
	if got := s.Term().Generation; got != 502 {
		t.Errorf("generation %d", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, Config{File: path})
	defer s.Close()
	if got := s.Term().Generation; got != 503 {
		t.Errorf("after a restart: generation %d", got)
	}
}

func TestFilesThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("no database", 4000)), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(dir, "newer")
	open(t, Config{File: newer}).Close()
	db, err := bbolt.Open(newer, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(formatKey, []byte("9")) }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		garbage: "move it away", newer: `has format "9", and this controller reads format 1`, filepath.Join(dir, "no", "x"): "no such file", dir: "store: ", "": "no file is given",
	} {
		if s, err := Open(t.Context(), Config{File: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
			if err == nil {
				s.Close()
			}
		}
	}
}

// TestRecordThatCannotBeRead does not keep the others from being read.
func TestRecordThatCannotBeRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "controller.db")
	s := open(t, Config{File: path})
	if err := s.Surrogates.Put(t.Context(), Surrogate{Name: "se1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.backend.write(t.Context(), 0, []op{{Surrogates, "bad", []byte("{")}, {"unknown", "x", []byte("{}")}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, Config{File: path})
	defer s.Close()
	if all := s.Surrogates.All(); len(all) != 1 || all[0].Name != "se1" {
		t.Errorf("%+v", all)
	}
}

func TestExpireHosts(t *testing.T) {
	s := open(t, Config{File: filepath.Join(t.TempDir(), "controller.db")})
	defer s.Close()
	now := time.Now()
	s.Hosts.Record(Host{MAC: "a", Until: now.Add(-time.Second)})
	s.Hosts.Record(Host{MAC: "b", Until: now.Add(time.Second)})
	if n := s.ExpireHosts(now); n != 1 {
		t.Errorf("%d have expired", n)
	}
	if _, ok := s.Hosts.Get("a"); ok || len(s.Hosts.All()) != 1 {
		t.Errorf("%+v", s.Hosts.All())
	}
}

// TestWhatTheClusterSays: only a cluster that does not answer is said to have no quorum.
func TestWhatTheClusterSays(t *testing.T) {
	for err, want := range map[error]string{
		context.DeadlineExceeded: "no quorum", rpctypes.ErrNoLeader: "no quorum", rpctypes.ErrTimeout: "no quorum",
		rpctypes.ErrNoSpace: "the store refuses: etcdserver: mvcc: database space exceeded", rpctypes.ErrPermissionDenied: "the store refuses: etcdserver: permission denied",
	} {
		if got := unanswered(err); !strings.Contains(got.Error(), want) || !errors.Is(got, err) {
			t.Errorf("%v: %v", err, got)
		}
	}
}
