package policy

import (
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata"

	"baton/balance/config"
)

func berlin(t testing.TB) *time.Location {
	t.Helper()
	l, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestPeriod(t *testing.T) {
	zone := berlin(t)
	tests := []struct {
		now        string
		every      config.Period
		day        int
		begin, end string
	}{
		{"2026-11-22 13:00", config.Day, 1, "2026-11-22 00:00", "2026-11-23 00:00"},
		{"2026-11-22 00:00", config.Day, 1, "2026-11-22 00:00", "2026-11-23 00:00"},
		{"2026-03-29 12:00", config.Day, 1, "2026-03-29 00:00", "2026-03-30 00:00"},  // 23 hours
		{"2026-11-22 13:00", config.Week, 1, "2026-11-16 00:00", "2026-11-23 00:00"}, // a Sunday
		{"2026-11-23 00:00", config.Week, 1, "2026-11-23 00:00", "2026-11-30 00:00"},
		{"2026-11-22 13:00", config.Week, 7, "2026-11-22 00:00", "2026-11-29 00:00"},
		{"2026-11-21 13:00", config.Week, 7, "2026-11-15 00:00", "2026-11-22 00:00"},
		{"2026-11-01 13:00", config.Week, 3, "2026-10-28 00:00", "2026-11-04 00:00"},
		{"2026-11-22 13:00", config.Month, 1, "2026-11-01 00:00", "2026-12-01 00:00"},
		{"2026-11-22 13:00", config.Month, 22, "2026-11-22 00:00", "2026-12-22 00:00"},
		{"2026-11-22 13:00", config.Month, 23, "2026-10-23 00:00", "2026-11-23 00:00"},
		{"2026-01-05 13:00", config.Month, 10, "2025-12-10 00:00", "2026-01-10 00:00"},
		{"2026-02-27 13:00", config.Month, 31, "2026-01-31 00:00", "2026-02-28 00:00"}, // begins on the last
		{"2026-02-28 13:00", config.Month, 31, "2026-02-28 00:00", "2026-03-31 00:00"},
		{"2028-02-28 13:00", config.Month, 30, "2028-01-30 00:00", "2028-02-29 00:00"},
		{"2026-10-26 13:00", config.Month, 25, "2026-10-25 00:00", "2026-11-25 00:00"}, // summer time ends
	}
	at := func(s string) time.Time {
		v, err := time.ParseInLocation("2006-01-02 15:04", s, zone)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, tt := range tests {
		begin, end := Period(at(tt.now), config.Cap{Every: tt.every, Day: tt.day})
		if !begin.Equal(at(tt.begin)) || !end.Equal(at(tt.end)) {
			t.Errorf("%s, %s from %d: %v to %v", tt.now, tt.every, tt.day, begin, end)
		}
	}
}

// TestPeriods: a time is in its period, and the next period begins where this one ends, in any zone.
func TestPeriods(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	zones := []*time.Location{time.UTC, berlin(t), time.FixedZone("far", -12*3600)}
	for range 20000 {
		c := config.Cap{Every: []config.Period{config.Day, config.Week, config.Month}[random.IntN(3)]}
		c.Day = 1 + random.IntN(31)
		if c.Every == config.Week {
			c.Day = 1 + random.IntN(7)
		}
		now := time.Unix(random.Int64N(1<<32), 0).In(zones[random.IntN(3)])
		begin, end := Period(now, c)
		next, _ := Period(end, c)
		same, until := Period(end.Add(-time.Second), c)
		if now.Before(begin) || !now.Before(end) || !next.Equal(end) || !same.Equal(begin) || !until.Equal(end) {
			t.Fatalf("seed %d: %v, %+v: %v to %v, then %v", seed, now, c, begin, end, next)
		}
	}
}
