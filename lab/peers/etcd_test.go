package peers_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

type keyValue struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value,omitempty"`
}

func put(ctx context.Context, m *peers.EtcdNode, value string) error {
	var done struct{}
	return m.Call(ctx, "kv/put", keyValue{[]byte("baton"), []byte(value)}, &done)
}

func wantValue(t *testing.T, m *peers.EtcdNode, want string) {
	t.Helper()
	lab.Eventually(t, 20*time.Second, func() error {
		var found struct {
			Values []keyValue `json:"kvs"`
		}
		err := m.Call(deadline(t), "kv/range", keyValue{Key: []byte("baton")}, &found)
		if err == nil && (len(found.Values) != 1 || string(found.Values[0].Value) != want) {
			err = fmt.Errorf("%s has %q, want %q", m.Name, found.Values, want)
		}
		return err
	})
}

// A cluster on three hosts loses its leader, then its quorum, and gets both back with all that was written.
func TestEtcdLosesMembers(t *testing.T) {
	l := lab.New(t)
	hub := l.Host("hub")
	bridge := hub.Bridge("br0")
	var places []peers.EtcdMember
	for i := range 3 {
		h := l.Host(fmt.Sprint("store", i))
		address := fmt.Sprintf("10.5.0.%d", i+1)
		l.Link(lab.End{Host: hub}, lab.End{Host: h, Addrs: []string{address + "/24"}}, lab.LinkOptions{}).A.Attach(bridge)
		places = append(places, peers.EtcdMember{Host: h, Address: address})
	}
	c := peers.Etcd(l, peers.EtcdOptions{}, places...)
	t.Logf("%s", c.Version)
	if err := put(deadline(t), c.Members[0], "first"); err != nil {
		t.Fatal(err)
	}
	for _, m := range c.Members {
		wantValue(t, m, "first")
	}

	dead, err := c.Leader(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.Kill(); err != nil {
		t.Fatal(err)
	}
	var left []*peers.EtcdNode
	for _, m := range c.Members {
		if m != dead {
			left = append(left, m)
		}
	}
	lab.Eventually(t, 20*time.Second, func() error {
		short, cancel := context.WithTimeout(deadline(t), time.Second)
		defer cancel()
		return put(short, left[0], "second")
	})
	wantValue(t, left[1], "second")
	if leader, err := c.Leader(deadline(t)); err != nil || leader == dead {
		t.Errorf("leader %v, %v; want one of those that are left", leader, err)
	}

	if err := left[1].Pause(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(deadline(t), time.Second)
	defer cancel()
	if err := put(short, left[0], "lost"); err == nil {
		t.Error("a member without a quorum has taken a value")
	}
	if err := left[1].Resume(); err != nil {
		t.Fatal(err)
	}
	if err := dead.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := dead.Restart(); err == nil {
		t.Error("a running member was started again")
	}
	for _, m := range c.Members {
		if err := m.Ready(); err != nil {
			t.Fatal(err)
		}
	}
	lab.Eventually(t, 20*time.Second, func() error { return put(deadline(t), left[0], "third") })
	wantValue(t, dead, "third")
}

// Three members on one host have ports of their own.
func TestEtcdOnOneHost(t *testing.T) {
	l := lab.New(t)
	h := l.Host("stores")
	c := peers.Etcd(l, peers.EtcdOptions{Port: 4001}, peers.EtcdMember{Host: h}, peers.EtcdMember{Host: h}, peers.EtcdMember{Host: h})
	want := "[http://127.0.0.1:4001 http://127.0.0.1:4003 http://127.0.0.1:4005]"
	if got := fmt.Sprint(c.Endpoints()); got != want {
		t.Errorf("endpoints %s, want %s", got, want)
	}
	if err := put(deadline(t), c.Members[2], "one host"); err != nil {
		t.Fatal(err)
	}
	wantValue(t, c.Members[0], "one host")
}
