package zone

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Options say what to load.
type Options struct {
	Origin string            // the zone's name, absolute
	File   string            // its file; $INCLUDE reaches only files in the same folder and below
	Routed map[string]string // names whose addresses are chosen for each client, absolute, and their rules
}

// maxMistakes is how many mistakes of a zone are told.
const maxMistakes = 20

// Load reads and checks a zone. The error has a line for each mistake, with its place; it stops at the first one of the syntax.
func Load(o Options) (*Zone, error) {
	folder, err := os.OpenRoot(filepath.Dir(o.File))
	if err != nil {
		return nil, fmt.Errorf("zone %s: %w", o.Origin, err)
	}
	defer folder.Close()
	return load(folder.FS(), filepath.Base(o.File), o)
}

// Parse is Load of files that are there already.
func Parse(files fs.FS, o Options) (*Zone, error) { return load(files, o.File, o) }

func load(files fs.FS, name string, o Options) (*Zone, error) {
	key, err := KeyOf(o.Origin)
	if err != nil {
		return nil, err
	}
	l := loader{
		zone:  &Zone{Origin: strings.ToLower(o.Origin), Key: key, Nodes: make(map[Key]*Node)},
		from:  &sources{folder: files},
		shown: func(file string) string { return path.Join(filepath.ToSlash(filepath.Dir(o.File)), file) },
	}
	f, err := l.from.Open(name)
	if err != nil {
		return nil, fmt.Errorf("zone %s: %w", o.Origin, err)
	}
	defer f.Close()
	l.read(f.(*included), name, o.Origin)
	l.zone.Files = l.from.names
	if len(l.mistakes) == 0 {
		l.route(o.Routed)
		l.cuts()
		l.check()
	}
	if len(l.mistakes) > 0 {
		return nil, errors.Join(l.mistakes...)
	}
	return l.zone, nil
}

type loader struct {
	zone     *Zone
	from     *sources
	shown    func(file string) string
	mistakes []error
	more     bool // there are more mistakes than are told
}

// wrong notes a mistake at a place "file:line".
func (l *loader) wrong(place, format string, args ...any) {
	if len(l.mistakes) == maxMistakes {
		l.more = true
		return
	}
	l.mistakes = append(l.mistakes, fmt.Errorf("%s: %s", place, fmt.Sprintf(format, args...)))
}

func (l *loader) warn(place, format string, args ...any) {
	l.zone.Warnings = append(l.zone.Warnings, place+": "+fmt.Sprintf(format, args...))
}

func (l *loader) here() string {
	file, line := l.from.place()
	return fmt.Sprintf("%s:%d", l.shown(file), line)
}

// read takes all records of a file.
func (l *loader) read(f *included, name, origin string) {
	parser := dns.NewZoneParser(f, origin, name)
	parser.SetIncludeAllowed(true)
	parser.SetIncludeFS(l.from)
	for {
		l.from.next()
		rr, ok := parser.Next()
		if !ok {
			break
		}
		l.add(rr)
	}
	if err := parser.Err(); err != nil {
		l.syntax(err)
	}
}

// atLine is the place in an error of the parser, whose fields are hidden.
var atLine = regexp.MustCompile(`^(.*): dns: (.*) at line: (\d+):(\d+)$`)

func (l *loader) syntax(err error) {
	text, place := strings.TrimPrefix(err.Error(), "dns: "), l.here()
	if m := atLine.FindStringSubmatch(err.Error()); m != nil {
		place, text = l.shown(m[1])+":"+m[3]+":"+m[4], said(m[2])
	}
	var outside *fs.PathError
	if errors.As(err, &outside) {
		text = fmt.Sprintf("$INCLUDE %q: %v", outside.Path, outside.Err)
		if !errors.Is(err, fs.ErrNotExist) {
			text += " (only files in the folder of the zone's file may be included)"
		}
	}
	l.wrong(place, "%s", text)
}

// Types of records that say how a zone is signed. This server signs when it answers.
var signing = []uint16{dns.TypeRRSIG, dns.TypeNSEC, dns.TypeNSEC3, dns.TypeNSEC3PARAM, dns.TypeDNSKEY}

// add takes a record.
func (l *loader) add(rr dns.RR) {
	h, here := rr.Header(), l.here()
	key, err := KeyOf(h.Name)
	kind := dns.TypeToString[h.Rrtype]
	switch {
	case err != nil:
		l.wrong(here, "%v", err)
		return
	case !key.Within(l.zone.Key):
		l.wrong(here, "%s is outside of the zone %s (a name of the zone, or another file)", h.Name, l.zone.Origin)
		return
	case h.Class != dns.ClassINET:
		l.wrong(here, "class %s is not served (IN)", dns.ClassToString[h.Class])
		return
	case slices.Contains(signing, h.Rrtype):
		l.wrong(here, "%s %s: signatures are made when a question is answered (leave it out, and give the zone keys in keys:)", h.Name, kind)
		return
	case h.Rrtype == dns.TypeDNAME:
		l.wrong(here, "%s DNAME is not served (a CNAME at each name, or at a wildcard)", h.Name)
		return
	case kind == "" || dns.TypeToRR[h.Rrtype] == nil:
		l.wrong(here, "%s: a type without a meaning here: %d", h.Name, h.Rrtype)
		return
	}
	if why := unpackable(rr); why != "" {
		l.wrong(here, "%s %s %s", h.Name, kind, why)
		return
	}
	if h.Ttl > 1<<31-1 {
		l.wrong(here, "%s %s: the TTL %d is above 2147483647 (RFC 2181, section 8)", h.Name, kind, h.Ttl)
		return
	}
	node := l.node(key, h.Name, here)
	if node.line == "" {
		node.line = here
	}
	l.put(node, rr, here)
}

// unpackable says why a record cannot be sent: the parser takes some that have no data.
func unpackable(rr dns.RR) string {
	wire := make([]byte, dns.Len(rr)+maxName)
	end, err := dns.PackRR(rr, wire, 0, nil, false)
	if err != nil {
		return "cannot be sent: " + strings.TrimPrefix(err.Error(), "dns: ")
	}
	if _, _, err := dns.UnpackRR(wire[:end], 0); err != nil {
		return "cannot be read by others: " + strings.TrimPrefix(err.Error(), "dns: ")
	}
	fields := reflect.ValueOf(rr).Elem()
	for i := range fields.NumField() {
		if strings.HasSuffix(fields.Type().Field(i).Tag.Get("dns"), "domain-name") && fields.Field(i).String() == "" {
			return "lacks the name " + strings.ToLower(fields.Type().Field(i).Name)
		}
	}
	if _, empty := rr.(*dns.NULL); rr.Header().Rdlength == 0 && !empty {
		return "has no data"
	}
	return ""
}

// node is a name's, which is made with all above it.
func (l *loader) node(key Key, name, here string) *Node {
	n := l.zone.Nodes[key]
	if n != nil && n.listed {
		return n
	}
	if n == nil { // else a name below it came first
		n = &Node{Key: key}
		l.zone.Nodes[key] = n
	}
	n.Name, n.line, n.listed = name, here, true
	l.zone.order = append(l.zone.order, n)
	for up := key; up != l.zone.Key; {
		if up = up.Parent(); l.zone.Nodes[up] != nil {
			break
		}
		l.zone.Nodes[up] = &Node{Key: up, Name: up.String()}
	}
	return n
}

func (l *loader) put(node *Node, rr dns.RR, here string) {
	h := rr.Header()
	for i := range node.Sets {
		s := &node.Sets[i]
		if s.Type != h.Rrtype {
			continue
		}
		for _, other := range s.Records {
			if dns.IsDuplicate(rr, other) {
				l.warn(here, "%s %s is there twice: once is enough", h.Name, dns.TypeToString[h.Rrtype])
				return
			}
		}
		if h.Rrtype == dns.TypeCNAME || h.Rrtype == dns.TypeSOA {
			l.wrong(here, "%s has more than one %s", h.Name, dns.TypeToString[h.Rrtype])
			return
		}
		if first := s.Records[0].Header(); first.Ttl != h.Ttl {
			least := min(first.Ttl, h.Ttl)
			l.warn(here, "%s %s has the TTLs %d and %d: all get %d (RFC 2181, section 5.2)", h.Name, dns.TypeToString[h.Rrtype], first.Ttl, h.Ttl, least)
			h.Ttl = least
			for _, other := range s.Records {
				other.Header().Ttl = least
			}
		}
		s.Records = append(s.Records, rr)
		l.zone.Records++
		return
	}
	node.Sets = append(node.Sets, Set{h.Rrtype, []dns.RR{rr}})
	l.zone.Records++
	if soa, ok := rr.(*dns.SOA); ok && node.Key == l.zone.Key {
		negative := dns.Copy(soa).(*dns.SOA)
		negative.Hdr.Ttl = min(soa.Hdr.Ttl, soa.Minttl)
		l.zone.SOA, l.zone.Negative = soa, negative
	} else if ok {
		l.wrong(here, "a SOA at %s: the zone is %s", h.Name, l.zone.Origin)
	}
}

// route marks the names whose addresses are chosen for each client.
func (l *loader) route(routed map[string]string) {
	for name, rule := range routed {
		key, err := KeyOf(name)
		if err != nil || !key.Within(l.zone.Key) {
			l.wrong(l.shown(l.from.names[0])+":1", "the routed name %s is outside of the zone %s", name, l.zone.Origin)
			continue
		}
		node := l.node(key, name, "")
		for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeHTTPS, dns.TypeCNAME} {
			if node.Set(kind) != nil {
				l.wrong(node.line, "%s has %s records, but is routed: its addresses are chosen for each client", name, dns.TypeToString[kind])
			}
		}
		node.Routed = rule
	}
}

// cuts notes the delegation of each name at or below one.
func (l *loader) cuts() {
	for key, n := range l.zone.Nodes {
		for up := key; up != l.zone.Key; up = up.Parent() {
			if at := l.zone.Nodes[up]; at.Set(dns.TypeNS) != nil {
				n.Cut = at // the highest one counts
			}
		}
	}
}
