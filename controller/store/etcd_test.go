package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/api"
	"baton/lab"
	"baton/lab/peers"
)

// cluster is etcd on three hosts, and two hosts of controllers, around one bridge.
type cluster struct {
	*peers.EtcdCluster
	t     *testing.T
	hosts map[string]*lab.Host // of controllers
	links map[string]*lab.Link
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	l := lab.New(t)
	c := &cluster{t: t, hosts: map[string]*lab.Host{}, links: map[string]*lab.Link{}}
	hub := l.Host("hub")
	bridge := hub.Bridge("br0")
	place := func(name, address string) *lab.Host {
		h := l.Host(name)
		link := l.Link(lab.End{Host: hub}, lab.End{Host: h, Addrs: []string{address + "/24"}}, lab.LinkOptions{})
		link.A.Attach(bridge)
		c.links[name] = link
		return h
	}
	var places []peers.EtcdMember
	for i := range 3 {
		address := fmt.Sprintf("10.5.0.%d", i+1)
		places = append(places, peers.EtcdMember{Host: place(fmt.Sprint("store", i), address), Address: address})
	}
	for i, name := range []string{"c1", "c2"} {
		c.hosts[name] = place(name, fmt.Sprintf("10.5.0.%d", 11+i))
	}
	c.EtcdCluster = peers.Etcd(l, peers.EtcdOptions{}, places...)
	return c
}

func (c *cluster) config(name string) Config {
	h := c.hosts[name]
	return Config{
		Name: name, Log: slog.New(slog.NewTextHandler(c.t.Output(), nil)),
		Etcd: &Etcd{Endpoints: c.Endpoints(), dial: func(ctx context.Context, address string) (net.Conn, error) { return h.Dial(ctx, "tcp", address) }},
	}
}

func (c *cluster) open(name string) *Store {
	c.t.Helper()
	s := open(c.t, c.config(name))
	c.t.Cleanup(s.kill)
	return s
}

// kill ends a store as the death of its process does: nothing is written, nothing is given up.
func (s *Store) kill() {
	s.stop()
	s.ended.Wait()
	_ = s.backend.close()
}

// watchMasters looks all the time, until the test ends, that there are never two masters, and that generations rise.
func watchMasters(t *testing.T, stores ...*Store) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var highest uint64
		for ctx.Err() == nil {
			masters := 0
			began := time.Now()
			for _, s := range stores {
				if now := s.Term(); now.Master {
					masters++
					if now.Generation < highest {
						t.Errorf("%s is the master of generation %d after %d", now.Holder, now.Generation, highest)
					}
					highest = now.Generation
				}
			}
			if masters > 1 && time.Since(began) < 50*time.Millisecond { // else the test itself was paused between the two
				t.Error("two masters")
			}
			time.Sleep(time.Millisecond)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func masterOf(t *testing.T, within time.Duration, stores ...*Store) *Store {
	t.Helper()
	var master *Store
	eventually(t, within, "there is a master", func() bool {
		for _, s := range stores {
			if s.Term().Master {
				master = s
			}
		}
		return master != nil
	})
	return master
}

func other(s *Store, stores ...*Store) *Store {
	for _, o := range stores {
		if o != s {
			return o
		}
	}
	return nil
}

func flushed(t *testing.T, s *Store) {
	t.Helper()
	eventually(t, 10*time.Second, "all is written", func() bool { return s.Status().Pending == 0 })
}

// TestMasterIsReplaced: two begin at once, and one is the master; it dies, and in less than two seconds the other one is, in a greater
// generation, with all records; one that ends by itself is replaced at once.
func TestMasterIsReplaced(t *testing.T) {
	c := newCluster(t)
	var a, b *Store
	var opening sync.WaitGroup
	opening.Go(func() { a = open(t, c.config("c1")) })
	opening.Go(func() { b = open(t, c.config("c2")) })
	opening.Wait()
	watchMasters(t, a, b)
	master := masterOf(t, 5*time.Second, a, b)
	next := other(master, a, b)
	for id := range uint64(250) {
		master.Handoffs.Record(handoff(id))
	}
	master.Handoffs.Forget(7)
	flushed(t, master)
	eventually(t, 5*time.Second, "the other one has them", func() bool { return len(next.Handoffs.All()) == 249 })
	first := master.Term()

	master.kill()
	began := time.Now()
	masterOf(t, 5*time.Second, next)
	took := time.Since(began)
	t.Logf("replaced in %v", took)
	if took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	if now := next.Term(); now.Generation <= first.Generation {
		t.Errorf("%+v after %+v", now, first)
	}
	if n := len(next.Handoffs.All()); n != 249 {
		t.Errorf("%d handoffs", n)
	}

	third := c.open("c1")
	watchMasters(t, third, next)
	time.Sleep(2 * DefaultTiming.Takeover)
	if third.Term().Master || !next.Term().Master {
		t.Error("one that begins takes over from one that lives")
	}
	next.Handoffs.Forget(0)
	began = time.Now()
	if err := next.Close(); err != nil {
		t.Error(err)
	}
	masterOf(t, 5*time.Second, third)
	if took := time.Since(began); took > time.Second {
		t.Errorf("after a resignation it took %v", took)
	}
	if n := len(third.Handoffs.All()); n != 248 {
		t.Errorf("%d handoffs: the last change of the one that ended is lost", n)
	}
}

// TestLeaderKilled: the cluster loses its leader and goes on: so does the store.
func TestLeaderKilled(t *testing.T) {
	c := newCluster(t)
	a, b := c.open("c1"), c.open("c2")
	watchMasters(t, a, b)
	master := masterOf(t, 5*time.Second, a, b)
	leader, err := c.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	master.Handoffs.Record(handoff(1))
	began := time.Now()
	eventually(t, 10*time.Second, "there is a master that writes", func() bool {
		return (a.Term().Master || b.Term().Master) && a.Surrogates.Put(t.Context(), Surrogate{Name: "se1", State: "maintenance"}) == nil
	})
	t.Logf("after %v", time.Since(began))
	eventually(t, 10*time.Second, "the other one sees the change", func() bool {
		s, ok := b.Surrogates.Get("se1")
		return ok && s.State == "maintenance"
	})
	if master.Term().Master {
		flushed(t, master)
	}
}

// TestQuorumLost: reads go on, changes are refused within a second, there is no master after its time, records wait; and with the quorum
// all is as before.
func TestQuorumLost(t *testing.T) {
	c := newCluster(t)
	a, b := c.open("c1"), c.open("c2")
	watchMasters(t, a, b)
	master := masterOf(t, 5*time.Second, a, b)
	weight := 3
	if err := master.Surrogates.Put(t.Context(), Surrogate{Name: "se1", Weight: &weight}); err != nil {
		t.Fatal(err)
	}
	master.Handoffs.Record(handoff(1))
	flushed(t, master)
	before := master.Term()

	for _, m := range c.Members[:2] {
		if err := m.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	lost := time.Now()
	eventually(t, 3*time.Second, "the mastership is given up", func() bool { return !a.Term().Master && !b.Term().Master })
	if took := time.Since(lost); took > DefaultTiming.Stop+200*time.Millisecond {
		t.Errorf("it was given up after %v", took)
	}
	for _, s := range []*Store{a, b} {
		began := time.Now()
		err := s.Surrogates.Put(t.Context(), Surrogate{Name: "se2"})
		var told *api.ControllerError
		if !errors.As(err, &told) || told.Code != api.ControllerUnavailable || !strings.Contains(err.Error(), "no quorum") {
			t.Errorf("a change: %v", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it was refused after %v", took)
		}
		if got, ok := s.Surrogates.Get("se1"); !ok || *got.Weight != 3 {
			t.Errorf("%+v, %v", got, ok)
		}
		if _, ok := s.Surrogates.Get("se2"); ok {
			t.Error("a refused change is read")
		}
		if status := s.Status(); status.Answers || status.Error == "" {
			t.Errorf("%+v", status)
		}
	}
	master.Handoffs.Record(handoff(2))
	master.Handoffs.Forget(1)
	if n := master.Status().Pending; n != 2 {
		t.Errorf("%d records wait", n)
	}

	if err := c.Members[0].Restart(); err != nil {
		t.Fatal(err)
	}
	now := masterOf(t, 15*time.Second, a, b)
	if now.Term().Generation <= before.Generation {
		t.Errorf("%+v after %+v", now.Term(), before)
	}
	flushed(t, now)
	eventually(t, 10*time.Second, "the status is well", func() bool { return a.Status().Answers && b.Status().Answers })
	// Whoever is the master now: both know the same.
	eventually(t, 10*time.Second, "both know the same", func() bool {
		_, a1 := a.Handoffs.Get(1)
		_, b1 := b.Handoffs.Get(1)
		_, a2 := a.Handoffs.Get(2)
		_, b2 := b.Handoffs.Get(2)
		return a1 == b1 && a2 == b2
	})
	if now == master {
		if _, ok := other(master, a, b).Handoffs.Get(2); !ok {
			t.Error("the record that waited is lost")
		}
	}
}

// TestPartition: a master that reaches the store no more is none before the other one is; its late writes are refused, and what it did
// not write is dropped.
func TestPartition(t *testing.T) {
	c := newCluster(t)
	a, b := c.open("c1"), c.open("c2")
	watchMasters(t, a, b)
	old := masterOf(t, 5*time.Second, a, b)
	next := other(old, a, b)
	old.Handoffs.Record(handoff(1))
	flushed(t, old)
	eventually(t, 5*time.Second, "the other one has it", func() bool { _, ok := next.Handoffs.Get(1); return ok })
	fence, _ := old.elector.fence()

	c.links[old.config.Name].A.SetDown()
	began := time.Now()
	old.Handoffs.Forget(1)
	old.Handoffs.Record(handoff(2))
	masterOf(t, 5*time.Second, next)
	t.Logf("replaced in %v", time.Since(began))
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
	next.Handoffs.Record(handoff(3))
	flushed(t, next)
	c.links[old.config.Name].A.SetUp()
	eventually(t, 15*time.Second, "the old one sees the new one", func() bool { return old.Term().Holder == next.Term().Holder })
	if _, err := old.backend.write(t.Context(), fence, []op{{Handoffs, "late", []byte("{}")}}); !errors.Is(err, errFenced) {
		t.Errorf("a write of the earlier term: %v", err)
	}
	eventually(t, 15*time.Second, "the old one knows what the new one knows", func() bool {
		_, one := old.Handoffs.Get(1)
		_, two := old.Handoffs.Get(2)
		_, three := old.Handoffs.Get(3)
		return one && !two && three
	})
	if status := old.Status(); status.Pending != 0 || status.Dropped != 2 {
		t.Errorf("%+v", status)
	}
}

// TestOneMemberSilent: a member that is there and does not answer costs nobody the mastership.
func TestOneMemberSilent(t *testing.T) {
	c := newCluster(t)
	a := c.open("c1")
	masterOf(t, 5*time.Second, a)
	leader, err := c.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range c.Members {
		if m == leader {
			continue
		}
		if err := m.Pause(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = m.Resume() }()
		break
	}
	before := a.Term()
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if now := a.Term(); now != before {
			t.Fatalf("%+v after %+v", now, before)
		}
	}
}

// TestChangesOfOthers: a change at one controller is told at the other.
func TestChangesOfOthers(t *testing.T) {
	c := newCluster(t)
	a := c.open("c1")
	masterOf(t, 5*time.Second, a)
	changed := make(chan string, 10)
	config := c.config("c2")
	config.Changed = func(table string) { changed <- table }
	b := open(t, config)
	t.Cleanup(b.kill)
	if err := a.Surrogates.Put(t.Context(), Surrogate{Name: "se1", State: "maintenance"}); err != nil {
		t.Fatal(err)
	}
	wait := func(want string) {
		t.Helper()
		select {
		case got := <-changed:
			if got != want {
				t.Errorf("changed: %s, want %s", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the change is not told")
		}
	}
	wait(Surrogates)
	if s, _ := b.Surrogates.Get("se1"); s.State != "maintenance" {
		t.Errorf("%+v", s)
	}
	a.Hosts.Record(Host{MAC: "02:00:00:00:00:01"})
	wait(Hosts)
	if err := b.Surrogates.Put(t.Context(), Surrogate{Name: "se2"}); err != nil { // not the master
		t.Error(err)
	}
	eventually(t, 5*time.Second, "the master sees it", func() bool { _, ok := a.Surrogates.Get("se2"); return ok })
	if err := a.Surrogates.Delete(t.Context(), "se1"); err != nil {
		t.Fatal(err)
	}
	wait(Surrogates) // perhaps of se2
	eventually(t, 5*time.Second, "it is gone", func() bool { _, ok := b.Surrogates.Get("se1"); return !ok })
	if err := a.Raise(1000); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "the generation is raised", func() bool { now := a.Term(); return now.Master && now.Generation == 1001 })
}

// TestEtcdWithTLS: with certificates on both sides; without one the cluster is not reached, and that is said.
func TestEtcdWithTLS(t *testing.T) {
	l := lab.New(t)
	l.Need("etcd")
	h := l.Host("store")
	authority := peers.NewAuthority(l)
	certificate, key := authority.Sign("store")
	if _, err := h.Start(lab.Program{Path: "etcd", Args: []string{
		"--data-dir", l.Dir() + "/etcd", "--listen-client-urls", "https://127.0.0.1:2379", "--advertise-client-urls", "https://127.0.0.1:2379",
		"--listen-peer-urls", "http://127.0.0.1:2380", "--cert-file", certificate, "--key-file", key, "--client-cert-auth", "--trusted-ca-file", authority.File,
		"--logger", "zap", "--log-outputs", "stderr",
	}}); err != nil {
		t.Fatal(err)
	}
	own, err := tls.LoadX509KeyPair(authority.Sign("controller"))
	if err != nil {
		t.Fatal(err)
	}
	config := Config{Name: "c1", Etcd: &Etcd{
		Endpoints: []string{"https://store:2379"}, TLS: &tls.Config{RootCAs: authority.Pool, Certificates: []tls.Certificate{own}},
		dial: func(ctx context.Context, address string) (net.Conn, error) {
			return h.Dial(ctx, "tcp", strings.Replace(address, "store", "127.0.0.1", 1))
		},
	}}
	var s *Store
	lab.Eventually(t, 30*time.Second, func() (err error) { s, err = Open(t.Context(), config); return err })
	defer s.Close()
	masterOf(t, 5*time.Second, s)
	for name, wrong := range map[string]*tls.Config{
		"https://store:2379: it refuses the connection": {RootCAs: authority.Pool},
		"unknown authority":                             {Certificates: []tls.Certificate{own}},
	} {
		config.Etcd.TLS = wrong
		if s, err := Open(t.Context(), config); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %s", err, name)
			if err == nil {
				s.kill()
			}
		}
	}
}

// TestEtcdOfAnotherFormat is refused; so is a cluster that is not there.
func TestEtcdOfAnotherFormat(t *testing.T) {
	c := newCluster(t)
	a := c.open("c1")
	if _, err := a.backend.(*etcd).client.Put(t.Context(), defaultPrefix+"format", "9"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), c.config("c2")); err == nil || !strings.Contains(err.Error(), `is "9", and this controller reads format 1`) {
		t.Errorf("%v", err)
	}
	elsewhere := c.config("c2")
	elsewhere.Etcd.Prefix = "/elsewhere"
	s := open(t, elsewhere)
	defer s.Close()
	masterOf(t, 5*time.Second, s) // of its own
	elsewhere.Etcd.Endpoints = nil
	if _, err := Open(t.Context(), elsewhere); err == nil || !strings.Contains(err.Error(), "no endpoint") {
		t.Errorf("%v", err)
	}
	elsewhere.Etcd.Endpoints = []string{"http://10.5.0.99:2379"}
	began := time.Now()
	if _, err := Open(t.Context(), elsewhere); err == nil || !strings.Contains(err.Error(), "10.5.0.99") || time.Since(began) > 7*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}
