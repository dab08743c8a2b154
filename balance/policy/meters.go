package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"baton/balance/config"

	"github.com/google/renameio/v2"
)

// Meters count the bytes of links with a cap. They are kept in a file, so that neither a restart nor a crash of the host resets a cap. They
// are for one goroutine at a time.
type Meters struct {
	file   string
	boot   string // of the host: interface counters restart with it
	saved  time.Time
	dirty  bool
	urgent bool // a link has just exceeded its cap
	book   book
}

// Usage is how much of its cap a link has used.
type Usage struct {
	Used, Bytes uint64
	Until       time.Time // end of the period
	Over        bool
}

// book is the content of the file.
type book struct {
	Version int                 `json:"version"`
	Links   map[string]*account `json:"links"`
}

// account belongs to a link.
type account struct {
	Interface string        `json:"interface"`
	Boot      string        `json:"boot"`    // of the host
	Counter   uint64        `json:"counter"` // the interface's last counter
	Every     config.Period `json:"every"`
	Day       int           `json:"day"`
	Begin     time.Time     `json:"begin"`
	Until     time.Time     `json:"until"`
	Used      uint64        `json:"used"`
	Before    *past         `json:"before,omitempty"`
}

// past is the previous period, in case the clock is set back.
type past struct {
	Begin time.Time `json:"begin"`
	Until time.Time `json:"until"`
	Used  uint64    `json:"used"`
}

const (
	version   = 1
	mostBytes = 1 << 20 // of the file
	// saveEvery bounds what is lost in a power failure. A process that dies loses nothing, because the kernel keeps counting.
	saveEvery = 30 * time.Second
	bootFile  = "/proc/sys/kernel/random/boot_id"
)

// set is before any correct clock: hosts without a battery start in 1970, or at the build date of their software.
var set = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// OpenMeters reads the file. If that is unreadable or damaged, counting starts over: the error says so, and the Meters work.
func OpenMeters(file string) (*Meters, error) {
	m := &Meters{file: file}
	boot, err := os.ReadFile(bootFile)
	if err != nil {
		err = fmt.Errorf("bytes carried while no balance runs are not counted: %w", err)
	}
	m.boot = string(bytes.TrimSpace(boot))
	var wrong error
	if m.book, wrong = readBook(file); wrong != nil {
		wrong = fmt.Errorf("the usage of caps is lost, counting starts over: %w", wrong)
	}
	return m, errors.Join(wrong, err)
}

func readBook(file string) (book, error) {
	none := book{Links: map[string]*account{}}
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return none, nil
	case err != nil:
		return none, err
	case info.Size() > mostBytes:
		return none, fmt.Errorf("%s: %d bytes", file, info.Size())
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return none, err
	}
	b, err := parseBook(data)
	if err != nil {
		return none, fmt.Errorf("%s: %w", file, err)
	}
	return b, nil
}

func parseBook(data []byte) (b book, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return b, err
	}
	if b.Version != version {
		return b, fmt.Errorf("version %d, not %d", b.Version, version)
	}
	for name, a := range b.Links {
		if a == nil || !a.Begin.Before(a.Until) || a.Before != nil && !a.Before.Begin.Before(a.Before.Until) {
			return b, fmt.Errorf("link %q: no period", name)
		}
	}
	if b.Links == nil {
		b.Links = map[string]*account{}
	}
	return b, nil
}

// Count records the bytes of a link with a cap; counter is the interface's total in both directions since boot. Bytes from before the first
// call do not count.
func (m *Meters) Count(now time.Time, l config.Link, counter uint64) Usage {
	a := m.book.Links[l.Name]
	if a == nil {
		a = &account{Interface: l.Interface, Boot: m.boot, Counter: counter}
		m.book.Links[l.Name] = a
	}
	if a.Interface != l.Interface { // the same contract on another interface
		a.Interface, a.Boot, a.Counter = l.Interface, m.boot, counter
	}
	since := counter - a.Counter
	if counter < a.Counter || a.Boot != m.boot {
		since = counter
	}
	rolled := a.roll(now, *l.Cap)
	wasOver := a.Used >= l.Cap.Bytes
	m.dirty = m.dirty || rolled || since > 0
	a.Boot, a.Counter, a.Used = m.boot, counter, a.Used+min(since, math.MaxUint64-a.Used)
	u := Usage{Used: a.Used, Bytes: l.Cap.Bytes, Until: a.Until, Over: a.Used >= l.Cap.Bytes}
	m.urgent = m.urgent || u.Over && !wasOver
	return u
}

// roll moves the account to the period of the given time, and reports whether it was another one.
//
// Clocks jump. Forward: a new period begins; the previous one is remembered, and continues if the clock is set back. Back to an unknown
// period: its usage carries over, because overestimating a cap is cheaper than underestimating it. A clock that was never set changes
// nothing.
func (a *account) roll(now time.Time, c config.Cap) bool {
	begin, end := Period(now, c)
	switch {
	case a.Begin.IsZero():
		a.Begin, a.Until = begin, end
	case a.Every != c.Every || a.Day != c.Day: // the configuration has changed
		if begin.After(a.Begin) {
			a.Used = 0
		}
		a.Begin, a.Until, a.Before = begin, end, nil
	case now.Before(set) || !now.Before(a.Begin) && now.Before(a.Until):
		return false
	case !now.Before(a.Until):
		a.Before = &past{a.Begin, a.Until, a.Used}
		a.Begin, a.Until, a.Used = begin, end, 0
	case a.Before != nil && !now.Before(a.Before.Begin):
		a.Begin, a.Until, a.Used = a.Before.Begin, a.Before.Until, a.Used+min(a.Before.Used, math.MaxUint64-a.Used)
		a.Before = nil
	default:
		a.Begin, a.Until, a.Before = begin, end, nil
	}
	a.Every, a.Day = c.Every, c.Day
	return true
}

// Save writes the file if there is something new and it is due, or if it is the last chance.
func (m *Meters) Save(now time.Time, last bool) error {
	between := now.Sub(m.saved)
	if !m.dirty || !last && !m.urgent && between >= 0 && between < saveEvery {
		return nil
	}
	m.saved = now // also on failure, so as not to retry without end
	m.book.Version = version
	data, err := json.Marshal(m.book)
	if err != nil {
		return fmt.Errorf("save the usage of caps: %w", err)
	}
	if err := replace(m.file, append(data, '\n')); err != nil {
		return fmt.Errorf("save the usage of caps: %w", err)
	}
	m.dirty, m.urgent = false, false
	return nil
}

// replace writes a file atomically: it is the old or the new one, even after a power failure.
func replace(file string, data []byte) error {
	if err := renameio.WriteFile(file, data, 0o600, renameio.WithTempDir(filepath.Dir(file))); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
