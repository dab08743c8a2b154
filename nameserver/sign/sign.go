// Package sign signs answers when they are made (DNSSEC, RFC 4034), with one key of a zone (RFC 6781, section 3.1: a combined signing key), and denies
// what does not exist by compact records (RFC 9824): one NSEC record that covers the asked name alone, so that nobody can list a zone.
package sign

import (
	"crypto"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"baton/nameserver/zone"
)

// How long a signature is valid, how long before it is made anew, and for clocks that are slow. It is longer than any TTL that is of use.
const (
	valid = 7 * 24 * time.Hour
	reuse = 24 * time.Hour
	slow  = time.Hour
)

// kept is how many signatures are remembered. Those of names that do not exist are not: anybody can ask for any number of them.
const kept = 1 << 16

// Signer signs the answers of a zone.
type Signer struct {
	Key     *dns.DNSKEY
	private crypto.Signer

	mu   sync.Mutex
	made map[string]signature
}

type signature struct {
	*dns.RRSIG
	at time.Time
}

// Load reads a key of a zone: files PATH.key and PATH.private, as Generate and dnssec-keygen(8) write them.
func Load(path, origin string) (*Signer, error) {
	public, err := os.Open(path + ".key")
	if err != nil {
		return nil, err
	}
	defer public.Close()
	rr, err := dns.ReadRR(public, path+".key")
	if err != nil {
		return nil, err
	}
	key, ok := rr.(*dns.DNSKEY)
	if !ok {
		return nil, fmt.Errorf("%s.key holds no DNSKEY record", path)
	}
	if !strings.EqualFold(key.Hdr.Name, origin) {
		return nil, fmt.Errorf("%s.key is a key of %s, and the zone is %s", path, key.Hdr.Name, origin)
	}
	if key.Algorithm != dns.ECDSAP256SHA256 && key.Algorithm != dns.ED25519 {
		return nil, fmt.Errorf("%s.key has the algorithm %s (ECDSAP256SHA256 or ED25519: others are too slow to sign each answer)",
			path, dns.AlgorithmToString[key.Algorithm])
	}
	info, err := os.Stat(path + ".private")
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s.private may be read by others than its owner: chmod 600 %[1]s.private", path)
	}
	secret, err := os.Open(path + ".private")
	if err != nil {
		return nil, err
	}
	defer secret.Close()
	private, err := key.ReadPrivateKey(secret, path+".private")
	if err != nil {
		return nil, fmt.Errorf("%s.private: %w", path, err)
	}
	return newSigner(key, private.(crypto.Signer))
}

func newSigner(key *dns.DNSKEY, private crypto.Signer) (*Signer, error) {
	s := &Signer{Key: key, private: private, made: make(map[string]signature)}
	key.Hdr.Name = strings.ToLower(key.Hdr.Name)
	sig, err := s.sign([]dns.RR{key}, time.Now())
	if err == nil {
		err = sig.Verify(key, []dns.RR{key})
	}
	if err != nil {
		return nil, fmt.Errorf("the private key does not belong to the public one: %w", err)
	}
	return s, nil
}

// Generate makes a key of a zone in a folder, and returns its path without the ends .key and .private.
func Generate(folder, origin string) (path string, key *dns.DNSKEY, err error) {
	key = &dns.DNSKEY{
		Hdr:   dns.RR_Header{Name: strings.ToLower(dns.Fqdn(origin)), Rrtype: dns.TypeDNSKEY, Class: dns.ClassINET, Ttl: 3600},
		Flags: dns.ZONE | dns.SEP, Protocol: 3, Algorithm: dns.ECDSAP256SHA256,
	}
	private, err := key.Generate(256)
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(folder, fmt.Sprintf("K%s+%03d+%05d", key.Hdr.Name, key.Algorithm, key.KeyTag()))
	for end, text := range map[string]string{".private": key.PrivateKeyString(private), ".key": key.String() + "\n"} {
		mode := os.FileMode(0o600)
		if end == ".key" {
			mode = 0o644
		}
		f, err := os.OpenFile(path+end, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return "", nil, err
		}
		if _, err := f.WriteString(text); err != nil {
			f.Close()
			return "", nil, err
		}
		if err := f.Close(); err != nil {
			return "", nil, err
		}
	}
	return path, key, nil
}

// DS is the record that the zone above has of the key.
func (s *Signer) DS() *dns.DS { return s.Key.ToDS(dns.SHA256) }

// Keys answers a question for the zone's keys, which are not in its file.
func (s *Signer) Keys(z *zone.Zone, r *zone.Result, kind uint16) {
	if kind == dns.TypeDNSKEY && r.Last == z.Key && r.Negative && r.Code == dns.RcodeSuccess {
		key := dns.Copy(s.Key)
		key.Header().Ttl = z.SOA.Hdr.Ttl
		r.Answer, r.Nameserver, r.Negative = append(r.Answer, key), nil, false
	}
}

// Sign adds signatures and denials to an answer. last is the text of the name at which the search ended.
func (s *Signer) Sign(z *zone.Zone, r *zone.Result, last string, kind uint16, now time.Time) error {
	var err error
	if r.Answer, err = s.sets(r.Answer, now); err != nil {
		return err
	}
	switch {
	case r.Cut != nil:
		return s.refer(z, r, now)
	case !r.Negative:
		return nil
	}
	if r.Nameserver, err = s.sets(r.Nameserver, now); err != nil {
		return err
	}
	nothing := r.Code == dns.RcodeNameError
	types := []uint16{dns.TypeRRSIG, dns.TypeNSEC}
	if nothing {
		r.Code = dns.RcodeSuccess // RFC 9824, section 3.3: the record says so
		types = append(types, dns.TypeNXNAME)
	} else {
		types = append(types, typesOf(z, r, kind)...)
	}
	return s.deny(z, r, last, types, !nothing, now)
}

// typesOf are the types that a name has beside the one that was asked for.
func typesOf(z *zone.Zone, r *zone.Result, kind uint16) []uint16 {
	types := r.Node.Types()
	if r.Node.Routed != "" {
		for _, routed := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeHTTPS} {
			if routed != kind {
				types = append(types, routed)
			}
		}
	}
	if r.Last == z.Key {
		types = append(types, dns.TypeDNSKEY)
	}
	return types
}

// refer adds the DS records of a delegation, or that it has none.
func (s *Signer) refer(z *zone.Zone, r *zone.Result, now time.Time) error {
	if ds := r.Cut.Set(dns.TypeDS); ds != nil {
		signed, err := s.sets(ds, now)
		r.Nameserver = append(r.Nameserver, signed...)
		return err
	}
	return s.deny(z, r, r.Cut.Name, []uint16{dns.TypeNS, dns.TypeRRSIG, dns.TypeNSEC}, true, now)
}

func (s *Signer) deny(z *zone.Zone, r *zone.Result, name string, types []uint16, keep bool, now time.Time) error {
	slices.Sort(types)
	next := `\000.` + name
	if name == "." {
		next = `\000.`
	}
	denial := []dns.RR{&dns.NSEC{
		Hdr:        dns.RR_Header{Name: name, Rrtype: dns.TypeNSEC, Class: dns.ClassINET, Ttl: z.Negative.Hdr.Ttl},
		NextDomain: next, TypeBitMap: slices.Compact(types),
	}}
	if keep {
		signed, err := s.sets(denial, now)
		r.Nameserver = append(r.Nameserver, signed...)
		return err
	}
	sig, err := s.sign(denial, now)
	r.Nameserver = append(r.Nameserver, denial[0], sig)
	return err
}

// sets returns records with a signature behind each set of them.
func (s *Signer) sets(all []dns.RR, now time.Time) ([]dns.RR, error) {
	var out []dns.RR
	for len(all) > 0 {
		n, h := 1, all[0].Header()
		for n < len(all) && all[n].Header().Rrtype == h.Rrtype && strings.EqualFold(all[n].Header().Name, h.Name) {
			n++
		}
		sig, err := s.remembered(all[:n], now)
		if err != nil {
			return nil, err
		}
		out = append(append(out, all[:n]...), sig)
		all = all[n:]
	}
	return out, nil
}

// remembered is a signature that was made lately, or a new one.
func (s *Signer) remembered(set []dns.RR, now time.Time) (*dns.RRSIG, error) {
	var key strings.Builder
	key.WriteString(strings.ToLower(set[0].Header().Name))
	for _, rr := range set {
		text := rr.String()
		key.WriteString(text[len(rr.Header().Name):])
	}
	s.mu.Lock()
	found, ok := s.made[key.String()]
	s.mu.Unlock()
	if ok && now.Sub(found.at) < reuse {
		sig := *found.RRSIG
		sig.Hdr.Name = set[0].Header().Name
		return &sig, nil
	}
	sig, err := s.sign(set, now)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.made) >= kept {
		clear(s.made)
	}
	s.made[key.String()] = signature{sig, now}
	return sig, nil
}

func (s *Signer) sign(set []dns.RR, now time.Time) (*dns.RRSIG, error) {
	sig := &dns.RRSIG{
		Hdr:       dns.RR_Header{Ttl: set[0].Header().Ttl}, // RFC 4034, section 3
		Algorithm: s.Key.Algorithm, KeyTag: s.Key.KeyTag(), SignerName: s.Key.Hdr.Name,
		Inception: uint32(now.Add(-slow).Unix()), Expiration: uint32(now.Add(valid).Unix()),
	}
	if err := sig.Sign(s.private, set); err != nil {
		return nil, fmt.Errorf("sign %s: %w", set[0].Header().Name, err)
	}
	return sig, nil
}
