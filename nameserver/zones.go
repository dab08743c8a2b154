package nameserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"baton/nameserver/answer"
	"baton/nameserver/config"
	"baton/nameserver/sign"
	"baton/nameserver/zone"
)

// loaded is a zone as it is served, which is not always as its file is.
type loaded struct {
	cfg     config.Zone
	zone    *answer.Zone
	at      time.Time
	failure error // of reading the file last
}

// Zone reads and checks a zone of a configuration. The error has a line for each mistake, "file:line: ...".
func Zone(cfg *config.Config, z config.Zone) (*answer.Zone, error) {
	routed := make(map[string]string, len(z.Routed))
	for _, r := range z.Routed {
		routed[r.Name] = r.Name
	}
	data, err := zone.Load(zone.Options{Origin: z.Name, File: z.File, Routed: routed})
	if _, missing := os.Stat(z.File); err != nil && errors.Is(missing, fs.ErrNotExist) {
		return nil, cfg.Wrong(z.Path+".file", fmt.Sprintf("%q: no such file", z.File), "create it, or name another file")
	}
	if err != nil {
		return nil, err
	}
	out := &answer.Zone{Data: data, Transfer: z.Transfer}
	var keys []*sign.Key
	switch {
	case z.Key != "":
		k, err := sign.Load(z.Key, z.Name)
		if err != nil {
			return nil, cfg.Wrong(z.Path+".key", err.Error(), "")
		}
		keys = append(keys, k)
	case z.Keys != "":
		if keys, err = sign.LoadFolder(z.Keys, z.Name); err != nil {
			return nil, cfg.Wrong(z.Path+".keys", err.Error(), "")
		}
	default:
		return out, nil
	}
	out.Signer = sign.New(keys...)
	ttl := time.Duration(data.SOA.Hdr.Ttl) * time.Second
	for _, w := range out.Signer.Warnings(time.Now(), ttl, max(ttl, data.LongestTTL())) {
		data.Warnings = append(data.Warnings, "zone "+z.Name+": "+w)
	}
	return out, nil
}

// Zones reads and checks all zones of a configuration. The error has the mistakes of all, and warnings are those of the zones without any.
func Zones(cfg *config.Config) (zones []*answer.Zone, warnings []string, err error) {
	var errs []error
	for _, z := range cfg.Zones {
		one, err := Zone(cfg, z)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		zones, warnings = append(zones, one), append(warnings, one.Data.Warnings...)
	}
	return zones, warnings, errors.Join(errs...)
}

// read reads the zones of a configuration. A zone that cannot be read keeps what it had; without that the error says so.
func (n *Nameserver) read(cfg *config.Config) (map[string]*loaded, []string, error) {
	next := make(map[string]*loaded, len(cfg.Zones))
	var (
		changed []string
		errs    []error
	)
	for _, z := range cfg.Zones {
		old := n.zones[z.Name]
		one, err := Zone(cfg, z)
		switch {
		case err == nil:
			next[z.Name] = &loaded{cfg: z, zone: one, at: time.Now()}
			changed = append(changed, difference(z.Name, old, next[z.Name])...)
		case old == nil:
			errs = append(errs, err)
		default:
			kept := *old
			kept.failure = err
			next[z.Name] = &kept
			changed = append(changed, fmt.Sprintf("zone %s keeps its serial %d, as its file has mistakes: %v", z.Name, old.zone.Data.Serial(), err))
		}
	}
	for name := range n.zones {
		if next[name] == nil {
			changed = append(changed, "zone "+name+" is not served any more")
		}
	}
	return next, changed, errors.Join(errs...)
}

// difference says what is new of a zone.
func difference(name string, old, next *loaded) []string {
	if old == nil {
		return []string{fmt.Sprintf("zone %s is new: serial %d", name, next.zone.Data.Serial())}
	}
	from, to := old.zone.Data, next.zone.Data
	switch {
	case from.Serial() == to.Serial() && from.Records != to.Records:
		return []string{fmt.Sprintf("zone %s has changed, but its serial is %d as before: servers that copy it will not notice", name, to.Serial())}
	case from.Serial() == to.Serial():
		return nil
	case int32(to.Serial()-from.Serial()) < 0: // RFC 1982
		return []string{fmt.Sprintf("zone %s has the serial %d, which is older than %d: servers that copy it will not notice", name, to.Serial(), from.Serial())}
	}
	return []string{fmt.Sprintf("zone %s has the serial %d (%d before)", name, to.Serial(), from.Serial())}
}
