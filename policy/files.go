package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/oschwald/maxminddb-golang/v2"

	"baton/document"
)

// files are the contents of what a configuration names.
type files struct {
	coverage
	geo    Geo
	loaded [2]loaded // the coverage-zone file and the database
}

// loaded says which content of a file is in force.
type loaded struct {
	path string
	seen signature // of the content that was read last
	err  error     // why that is not in force
}

// signature tells contents of a file apart.
type signature struct {
	modified time.Time
	size     int64
	inode    uint64 // of a file that was renamed over another
}

// sign returns a file's signature, or the zero one if the file is missing.
func sign(path string) signature {
	info, err := os.Stat(path)
	if err != nil {
		return signature{}
	}
	s := signature{modified: info.ModTime(), size: info.Size()}
	if system, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = system.Ino
	}
	return s
}

// maxDatabase is far above the largest databases that are sold.
const maxDatabase = 2 << 30

// Load compiles a configuration with the files that it names. before is the policy until then, or nil. A file that has not changed is not read again. If one
// is broken and before has an earlier content of it, that stays in force, and Load returns both a policy and the error; otherwise the error alone.
func Load(cfg Config, before *Policy) (*Policy, error) {
	var f, old files
	if before != nil {
		old = before.files
	}
	var broken []error
	for i, path := range []string{cfg.Coverage, cfg.GeoDatabase} {
		if path == "" {
			continue
		}
		one := loaded{path: path, seen: sign(path)}
		was := old.loaded[i]
		have := was.path == path
		if have && was.seen == one.seen {
			one.err = was.err
			f.keep(i, &old)
		} else if err := f.read(i, path); err != nil {
			if !have {
				return nil, err
			}
			one.err = fmt.Errorf("%w\n%s: its earlier content stays in force", err, path)
			f.keep(i, &old)
		}
		if f.loaded[i] = one; one.err != nil {
			broken = append(broken, one.err)
		}
	}
	p, err := compile(cfg, f)
	if err != nil {
		return nil, err
	}
	return p, errors.Join(broken...)
}

func (f *files) keep(i int, old *files) {
	if i == 0 {
		f.coverage = old.coverage
	} else {
		f.geo = old.geo
	}
}

func (f *files) read(i int, path string) error {
	limit := int64(maxCoverage)
	if i == 1 {
		limit = maxDatabase
	}
	data, _, err := document.ReadFile(path, limit)
	if err != nil {
		return err
	}
	if i == 0 {
		f.coverage, err = parseCoverage(path, data)
		return err
	}
	if f.geo, err = OpenGeo(data); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Changed reports whether a file that the policy was loaded from is another one by now, so that Load is worth calling.
func (p *Policy) Changed() bool {
	for _, one := range p.files.loaded {
		if one.path != "" && sign(one.path) != one.seen {
			return true
		}
	}
	return false
}

// database is a MaxMind-format database in memory: a mapped file that is written over would kill the process.
type database struct{ reader *maxminddb.Reader }

// OpenGeo opens the content of a MaxMind-format database with countries, and coordinates if it has them.
func OpenGeo(data []byte) (Geo, error) {
	reader, err := maxminddb.OpenBytes(data)
	if err != nil {
		return nil, fmt.Errorf("is not a database: %w", err)
	}
	// The reader's own Verify refuses databases without descriptions, which serve as well, and reads all that is not used here.
	seen := make(map[uintptr]bool)
	for found := range reader.Networks() {
		if err := found.Err(); err != nil {
			return nil, fmt.Errorf("is a broken database: %w", err)
		}
		var r record
		if seen[found.Offset()] {
			continue
		}
		seen[found.Offset()] = true
		if err := found.Decode(&r); err != nil {
			return nil, fmt.Errorf("is a broken database: %v: %w", found.Prefix(), err)
		}
	}
	return database{reader}, nil
}

// record is what is read of an entry of GeoIP2 and GeoLite2, City or Country, and of those that are made like them.
type record struct {
	Country struct {
		Code string `maxminddb:"iso_code"`
	} `maxminddb:"country"`
	City struct {
		Names struct {
			English string `maxminddb:"en"`
		} `maxminddb:"names"`
	} `maxminddb:"city"`
	Location struct {
		Latitude  float64 `maxminddb:"latitude"`
		Longitude float64 `maxminddb:"longitude"`
	} `maxminddb:"location"`
}

func (d database) Find(a netip.Addr) (Place, bool) {
	if a.Is6() && d.reader.Metadata.IPVersion == 4 {
		return Place{}, false
	}
	found := d.reader.Lookup(a)
	place := Place{}
	if p := found.Prefix(); p.IsValid() {
		place.Bits = p.Bits()
	}
	var r record
	if err := found.Decode(&r); err != nil || !found.Found() {
		return place, false
	}
	place.Country, place.City = r.Country.Code, r.City.Names.English
	place.At = Coordinates{r.Location.Latitude, r.Location.Longitude}
	return place, place.Country != "" || !place.At.zero()
}
