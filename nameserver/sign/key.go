package sign

import (
	"bufio"
	"crypto"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Key is a key of a zone.
type Key struct {
	Path   string // of its files, without .key and .private
	Record *dns.DNSKEY
	Times  Times

	private crypto.Signer
	mu      sync.Mutex
	made    map[string]signature // that were made lately
}

type signature struct {
	*dns.RRSIG
	at time.Time
}

// Times are a key's, as dnssec-keygen(8) and dnssec-settime(8) write them. A zero time is not set. A key without any is published and signs, always.
type Times struct {
	Publish, Activate, Revoke, Inactive, Delete time.Time
	SyncPublish, SyncDelete                     time.Time // of CDS and CDNSKEY records
}

// isKSK reports whether a key is for the zone's keys, and not for the rest of the zone (the flag SEP).
func (k *Key) isKSK() bool { return k.Record.Flags&dns.SEP != 0 }

// Load reads a key of a zone: files PATH.key and PATH.private, as Generate and dnssec-keygen(8) write them.
func Load(path, origin string) (*Key, error) {
	record, err := readRecord(path, origin)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path + ".private")
	if err != nil {
		return nil, missing(err, path, origin)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s.private may be read by others than its owner: chmod 600 %[1]s.private", path)
	}
	secret, err := os.Open(path + ".private")
	if err != nil {
		return nil, err
	}
	defer secret.Close()
	private, err := record.ReadPrivateKey(secret, path+".private")
	if err != nil {
		return nil, fmt.Errorf("%s.private: %w", path, err)
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s.private holds no key that can sign (%s)", path, makes(path, origin))
	}
	k := &Key{Path: path, Record: record, private: signer, made: make(map[string]signature)}
	if _, err := secret.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if k.Times, err = readTimes(secret); err != nil {
		return nil, fmt.Errorf("%s.private: %w", path, err)
	}
	sig, err := k.sign(record, []dns.RR{record}, time.Now())
	if err == nil {
		err = sig.Verify(record, []dns.RR{record})
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the private key does not belong to the public one: %w (copy both files of a key)", path, err)
	}
	return k, nil
}

// missing adds how to make a key to the error about a file that is not there.
func missing(err error, path, origin string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w (%s)", err, makes(path, origin))
	}
	return err
}

// makes says how to make a key beside the files of path.
func makes(path, origin string) string {
	return fmt.Sprintf("baton nameserver key %s --folder %s makes one", strings.TrimSuffix(origin, "."), filepath.Dir(path))
}

func readRecord(path, origin string) (*dns.DNSKEY, error) {
	public, err := os.Open(path + ".key")
	if err != nil {
		return nil, missing(err, path, origin)
	}
	defer public.Close()
	rr, err := dns.ReadRR(public, path+".key")
	if err != nil {
		return nil, err
	}
	key, ok := rr.(*dns.DNSKEY)
	if !ok {
		return nil, fmt.Errorf("%s.key holds no DNSKEY record (%s)", path, makes(path, origin))
	}
	if !strings.EqualFold(key.Hdr.Name, origin) {
		return nil, fmt.Errorf("%s.key is a key of %s, and the zone is %s (%s)", path, key.Hdr.Name, origin, makes(path, origin))
	}
	if key.Algorithm != dns.ECDSAP256SHA256 && key.Algorithm != dns.ED25519 {
		return nil, fmt.Errorf("%s.key has the algorithm %s (ECDSAP256SHA256 or ED25519: others are too slow to sign each answer)",
			path, dns.AlgorithmToString[key.Algorithm])
	}
	key.Hdr.Name = strings.ToLower(key.Hdr.Name)
	return key, nil
}

// timeLayout is that of the times in a private key's file, in UTC.
const timeLayout = "20060102150405"

// readTimes reads the times of a private key's file. What else it has is of no interest here.
func readTimes(from io.Reader) (t Times, err error) {
	fields := map[string]*time.Time{
		"Publish": &t.Publish, "Activate": &t.Activate, "Revoke": &t.Revoke, "Inactive": &t.Inactive, "Delete": &t.Delete,
		"SyncPublish": &t.SyncPublish, "SyncDelete": &t.SyncDelete,
	}
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		to := fields[name]
		if to == nil {
			continue
		}
		value, _, _ = strings.Cut(strings.TrimSpace(value), " ")
		if *to, err = time.Parse(timeLayout, value); err != nil {
			return t, fmt.Errorf("%s: %q is no time (such as %s: dnssec-settime writes it)", name, value, timeLayout)
		}
	}
	return t, lines.Err()
}

// LoadFolder reads all keys of a zone in a folder, whose files are named as dnssec-keygen(8) names them. The error has a line for each file that is wrong.
func LoadFolder(folder, origin string) ([]*Key, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, missing(err, filepath.Join(folder, "K"), origin)
	}
	var (
		all  []*Key
		errs []error
	)
	for _, e := range entries {
		name, isKey := strings.CutSuffix(e.Name(), ".key")
		if !isKey || !strings.HasPrefix(strings.ToLower(name), "k"+strings.ToLower(dns.Fqdn(origin))+"+") {
			continue
		}
		k, err := Load(filepath.Join(folder, name), origin)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, k)
	}
	if len(errs) == 0 && len(all) == 0 {
		errs = append(errs, fmt.Errorf("%s has no key of %s (%s)", folder, strings.TrimSuffix(origin, "."), makes(filepath.Join(folder, "K"), origin)))
	}
	slices.SortFunc(all, func(a, b *Key) int { return strings.Compare(a.Path, b.Path) })
	return all, errors.Join(errs...)
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

// remembered is a signature that was made lately, or a new one.
func (k *Key) remembered(record *dns.DNSKEY, set []dns.RR, now time.Time) (*dns.RRSIG, error) {
	var name strings.Builder
	fmt.Fprintf(&name, "%d %s", record.Flags, strings.ToLower(set[0].Header().Name))
	for _, rr := range set {
		text := rr.String()
		name.WriteString(text[len(rr.Header().Name):])
	}
	k.mu.Lock()
	found, ok := k.made[name.String()]
	k.mu.Unlock()
	if age := now.Sub(found.at); ok && age >= 0 && age < reuse {
		sig := *found.RRSIG
		sig.Hdr.Name = set[0].Header().Name
		return &sig, nil
	}
	sig, err := k.sign(record, set, now)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.made) >= kept {
		clear(k.made)
	}
	k.made[name.String()] = signature{sig, now}
	return sig, nil
}

// sign signs with a key, whose record may be that of a revoked one.
func (k *Key) sign(record *dns.DNSKEY, set []dns.RR, now time.Time) (*dns.RRSIG, error) {
	sig := &dns.RRSIG{
		Hdr:       dns.RR_Header{Ttl: set[0].Header().Ttl}, // RFC 4034, section 3
		Algorithm: record.Algorithm, KeyTag: record.KeyTag(), SignerName: record.Hdr.Name,
		Inception: uint32(now.Add(-slow).Unix()), Expiration: uint32(now.Add(valid).Unix()),
	}
	if err := sig.Sign(k.private, set); err != nil {
		return nil, fmt.Errorf("sign %s: %w", set[0].Header().Name, err)
	}
	return sig, nil
}
