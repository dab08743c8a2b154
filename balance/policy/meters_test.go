package policy

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/balance/config"
)

func metered(bytes uint64) config.Link {
	return config.Link{Name: "lte", Interface: "wwan0", Cap: &config.Cap{Bytes: bytes, Every: config.Month, Day: 1}}
}

func openMeters(t *testing.T, file string) *Meters {
	t.Helper()
	m, err := OpenMeters(file)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func date(s string) time.Time {
	v, err := time.Parse("2006-01-02 15:04", s)
	if err != nil {
		panic(err)
	}
	return v
}

// TestMeter counts through restarts of the process, the host, the counter, the period, and clocks that jump.
func TestMeter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "caps.json")
	m := openMeters(t, file)
	l := metered(1000)
	restart := func() {
		if err := m.Save(date("2026-11-05 00:00"), true); err != nil {
			t.Fatal(err)
		}
		boot := m.boot
		m = openMeters(t, file)
		m.boot = boot
	}
	steps := []struct {
		name    string
		before  func()
		at      string
		counter uint64
		used    uint64
		until   string
	}{
		{"the first time nothing counts", nil, "2026-11-03 12:00", 500, 0, "2026-12-01 00:00"},
		{"then all", nil, "2026-11-03 12:01", 700, 200, "2026-12-01 00:00"},
		{"the counter begins anew", nil, "2026-11-03 12:02", 50, 250, "2026-12-01 00:00"},
		{"while the process was away", restart, "2026-11-03 12:05", 150, 350, "2026-12-01 00:00"},
		{"the host has started again", func() { restart(); m.boot = "another" }, "2026-11-03 12:10", 200, 550, "2026-12-01 00:00"},
		{"once", nil, "2026-11-03 12:10", 200, 550, "2026-12-01 00:00"},
		{"a clock that is not set", func() { restart(); m.boot = "third" }, "1970-01-01 00:00", 10, 560, "2026-12-01 00:00"},
		{"ahead", nil, "2031-01-07 00:00", 20, 10, "2031-02-01 00:00"},
		{"and back", nil, "2026-11-04 00:00", 30, 580, "2026-12-01 00:00"},
		{"back, to a period not known", nil, "2026-08-04 00:00", 40, 590, "2026-09-01 00:00"},
		{"another period", nil, "2026-11-04 00:00", 50, 10, "2026-12-01 00:00"},
		{"another", nil, "2026-12-01 00:00", 60, 10, "2027-01-01 00:00"},
		{"another interface", func() { l.Interface = "usb0" }, "2026-12-01 00:01", 9000, 10, "2027-01-01 00:00"},
		{"which counts", nil, "2026-12-01 00:02", 9100, 110, "2027-01-01 00:00"},
		{"the cap is of a day now", func() { l.Cap.Every = config.Day }, "2026-12-05 00:00", 9200, 100, "2026-12-06 00:00"},
		{"and of a week", func() { l.Cap.Every = config.Week }, "2026-12-05 01:00", 9300, 200, "2026-12-07 00:00"},
		{"over", nil, "2026-12-05 02:00", 10100, 1000, "2026-12-07 00:00"},
	}
	for _, s := range steps {
		if s.before != nil {
			s.before()
		}
		u := m.Count(date(s.at), l, s.counter)
		if u.Used != s.used || !u.Until.Equal(date(s.until)) || u.Bytes != 1000 || u.Over != (s.used >= 1000) {
			t.Errorf("%s: %+v", s.name, u)
		}
	}
}

// TestSave: the file is written when it is due, and what was written is there, also when a write was cut off.
func TestSave(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "caps.json")
	m := openMeters(t, file)
	now := date("2026-11-03 12:00")
	m.Count(now, metered(1000), 0)
	if err := m.Save(now, false); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("without a folder: %v", err)
	}
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	used := func() uint64 {
		t.Helper()
		b, err := readBook(file)
		if err != nil {
			t.Fatal(err)
		}
		if a := b.Links["lte"]; a != nil {
			return a.Used
		}
		return 0
	}
	step := func(after time.Duration, counter uint64, last bool, want uint64) {
		t.Helper()
		now = now.Add(after)
		m.Count(now, metered(1000), counter)
		if err := m.Save(now, last); err != nil {
			t.Fatal(err)
		}
		if got := used(); got != want {
			t.Errorf("the file has %d, want %d", got, want)
		}
	}
	step(time.Second, 100, false, 0) // it has just failed
	step(saveEvery, 200, false, 200)
	step(time.Second, 300, false, 200)
	step(time.Second, 400, true, 400)
	step(time.Second, 1100, false, 1100) // over the cap: at once
	step(time.Second, 1200, false, 1100)
	step(-time.Hour, 1300, false, 1300) // a clock that was set back
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	step(saveEvery, 1300, true, 1300)
	if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) {
		t.Errorf("written without anything new: %v", err)
	}
	if err := os.WriteFile(file+".new", []byte("{"), 0o600); err != nil { // killed here
		t.Fatal(err)
	}
	if u := openMeters(t, file).Count(now, metered(1000), 1300); u.Used != 1300 {
		t.Errorf("%+v", u)
	}
}

// TestBadFile: an invalid file is reported once, and counting starts over.
func TestBadFile(t *testing.T) {
	for name, text := range map[string]string{
		"empty":           "",
		"cut off":         `{"version":1,"links":{"lte":{"used":12`,
		"another version": `{"version":2}`,
		"no period":       `{"version":1,"links":{"lte":{"used":12}}}`,
		"null":            `{"version":1,"links":{"lte":null}}`,
		"negative":        `{"version":1,"links":{"lte":{"used":-12}}}`,
		"unknown":         `{"version":1,"usage":{}}`,
		"long":            `{"version":1,"links":{"` + strings.Repeat("x", mostBytes) + `":null}}`,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "caps.json")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			m, err := OpenMeters(file)
			if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "counting starts over") {
				t.Errorf("reported: %v", err)
			}
			now := date("2026-11-03 12:00")
			m.Count(now, metered(1000), 0)
			if u := m.Count(now, metered(1000), 10); u.Used != 10 {
				t.Errorf("%+v", u)
			}
			if err := m.Save(now, true); err != nil {
				t.Fatal(err)
			}
			openMeters(t, file)
		})
	}
}

// FuzzParseBook: whatever is in the file, counting goes on, and what is written then is read again.
func FuzzParseBook(f *testing.F) {
	f.Add([]byte(`{"version":1,"links":{}}`), int64(1_800_000_000), uint64(5))
	f.Add([]byte(`{"version":1,"links":{"lte":{"interface":"wwan0","boot":"b","counter":18446744073709551615,"every":"month","day":1,`+
		`"begin":"2026-11-01T00:00:00Z","until":"2026-12-01T00:00:00Z","used":18446744073709551615,`+
		`"before":{"begin":"2026-10-01T00:00:00Z","until":"2026-11-01T00:00:00Z","used":7}}}}`), int64(1_793_000_000), uint64(5))
	f.Fuzz(func(t *testing.T, data []byte, now int64, counter uint64) {
		b, err := parseBook(data)
		if err != nil {
			return
		}
		m := &Meters{file: filepath.Join(t.TempDir(), "caps.json"), boot: "b", book: b}
		at := time.Unix(now%(1<<35), 0).UTC()
		before := m.Count(at, metered(1000), counter)
		u := m.Count(at, metered(1000), counter)
		if u != before || u.Over != (u.Used >= 1000) {
			t.Errorf("%+v, then %+v", before, u)
		}
		m.dirty = true
		if err := m.Save(at, true); err != nil {
			if strings.Contains(err.Error(), "year outside of range") {
				return // the file's own
			}
			t.Fatal(err)
		}
		written, err := os.ReadFile(m.file)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseBook(bytes.TrimSpace(written)); err != nil || again.Links["lte"].Used != u.Used {
			t.Errorf("%v of %s", err, written)
		}
	})
}
