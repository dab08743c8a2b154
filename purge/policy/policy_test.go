package policy

import (
	"math/rand/v2"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestIn(t *testing.T) {
	paper := Policy{Ceiling: time.Hour}
	tests := []struct {
		name   string
		policy Policy
		expiry Expiry
		in     time.Duration
		now    bool
	}{
		{"no retry: the first timeout", paper, Expiry{1, 200 * ms, 200 * ms}, 0, true},
		{"one retry: not the first", Policy{MaxRetries: 1, Ceiling: time.Hour}, Expiry{1, 200 * ms, 200 * ms}, 0, false},
		{"one retry: the second", Policy{MaxRetries: 1, Ceiling: time.Hour}, Expiry{2, 400 * ms, 600 * ms}, 0, true},
		{"wait as long again", Policy{Wait: 100, Ceiling: time.Hour}, Expiry{1, 204 * ms, 204 * ms}, 164 * ms, true},
		{"wait in whole ms", Policy{Wait: 50, Ceiling: time.Hour}, Expiry{1, 205 * ms, 205 * ms}, 62 * ms, true},
		{"floor above the wait", Policy{Floor: time.Second, Ceiling: time.Hour}, Expiry{1, 200 * ms, 200 * ms}, 800 * ms, true},
		{"floor that is over", Policy{Floor: time.Second, Ceiling: time.Hour}, Expiry{4, 1600 * ms, 3 * time.Second}, 0, true},
		{"wait above the ceiling", Policy{Wait: 100, Ceiling: 300 * ms}, Expiry{1, 200 * ms, 200 * ms}, 100 * ms, true},
		{"ceiling before the next timeout", Policy{MaxRetries: 5, Ceiling: 500 * ms}, Expiry{1, 200 * ms, 200 * ms}, 300 * ms, true},
		{"ceiling as the next timeout runs out", Policy{MaxRetries: 5, Ceiling: 600 * ms}, Expiry{1, 200 * ms, 200 * ms}, 400 * ms, true},
		{"ceiling after the next timeout", Policy{MaxRetries: 5, Ceiling: 601 * ms}, Expiry{1, 200 * ms, 200 * ms}, 0, false},
		{"ceiling that is over", Policy{MaxRetries: 5, Ceiling: 100 * ms}, Expiry{1, 200 * ms, 200 * ms}, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if in, now := tt.policy.In(tt.expiry); in != tt.in || now != tt.now {
				t.Errorf("%v, %v; want %v, %v", in, now, tt.in, tt.now)
			}
		})
	}
}

// TestLifetime has the paper's figures (section 3.1.2 and 4.2): 0 retries are one timeout, 1 retry is three.
func TestLifetime(t *testing.T) {
	tests := []struct {
		policy Policy
		want   time.Duration
	}{
		{Policy{Ceiling: time.Hour}, 200 * ms},
		{Policy{MaxRetries: 1, Ceiling: time.Hour}, 600 * ms},
		{Policy{MaxRetries: 2, Ceiling: time.Hour}, 1400 * ms},
		{Policy{Wait: 100, Ceiling: time.Hour}, 360 * ms},
		{Policy{MaxRetries: 15, Ceiling: 924 * time.Second}, 924 * time.Second},
	}
	for _, tt := range tests {
		if got := tt.policy.Lifetime(200 * ms); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.policy, got, tt.want)
		}
	}
}

// TestBounds: whatever the policy, nobody is dormant before the floor or after the ceiling, unless the first timeout is longer than that;
// and to allow more never shortens a life.
func TestBounds(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	bounded := map[string]int{}
	for range 20000 {
		p := Policy{MaxRetries: random.IntN(6), Wait: random.IntN(300), Floor: time.Duration(random.IntN(3000)) * ms}
		p.Ceiling = p.Floor + time.Duration(random.IntN(20000))*ms
		rto := time.Duration(1+random.IntN(3000)) * ms
		life := p.Lifetime(rto)
		if life < p.Floor || life < rto || life > max(p.Ceiling, rto) {
			t.Fatalf("seed %d: %+v, RTO %v: a life of %v", seed, p, rto, life)
		}
		switch life {
		case p.Floor:
			bounded["floor"]++
		case p.Ceiling:
			bounded["ceiling"]++
		default:
			bounded["neither"]++
		}
		for _, more := range []Policy{
			{p.MaxRetries + 1, p.Wait, p.Floor, p.Ceiling}, {p.MaxRetries, p.Wait + 50, p.Floor, p.Ceiling},
			{p.MaxRetries, p.Wait, p.Floor, p.Ceiling + time.Second},
		} {
			if longer := more.Lifetime(rto); longer < life {
				t.Fatalf("seed %d: RTO %v: %+v lives %v, %+v %v", seed, rto, p, life, more, longer)
			}
		}
	}
	if bounded["floor"] < 100 || bounded["ceiling"] < 100 || bounded["neither"] < 100 {
		t.Errorf("the policies are badly chosen: %v", bounded)
	}
}
