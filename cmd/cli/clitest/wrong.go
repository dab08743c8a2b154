package clitest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"baton/cmd/cli"
	"baton/document"
	"baton/document/documenttest"
)

// Spoilt is an example of a part's configuration, of which each value can be wrong.
type Spoilt struct {
	Part       string
	File       string // the example
	Schema     func() document.Schema
	Check      func(file string) error
	References string            // an expression for the key paths of names that are listed elsewhere in it
	Files      map[string]string // contents of files that it names, apart from certificates, by their names without folders
	Except     string            // an expression for mistakes that are none there: "duplicate entry: links[0]"
}

// WrongInputs checks each wrong variant of an example by the command check: one line says where the mistake is, and what to write instead, and the exit
// status is 2. Another mistake beside it is told as well.
func WrongInputs(t *testing.T, said func(args ...string) (status int, out, errs string), s Spoilt) (cases int) {
	t.Helper()
	text, err := os.ReadFile(s.File)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	valid := withFiles(t, dir, string(text), s.Files)
	file := filepath.Join(dir, s.Part+".yaml")
	write(t, file, valid)
	if err := s.Check(file); err != nil {
		t.Fatalf("%s is not valid: %v", s.File, err)
	}
	all, err := documenttest.Spoil(valid, s.Schema(), regexp.MustCompile(s.References))
	if err != nil {
		t.Fatal(err)
	}
	except := regexp.MustCompile(s.Except)
	for _, w := range all {
		name := w.Kind + ": " + w.Of
		if s.Except != "" && except.MatchString(name) {
			continue
		}
		cases++
		write(t, file, w.Text)
		status, out, errs := said(s.Part, "check", "-c", file)
		if problem := judge(&w, file, status, out, errs); problem != "" {
			t.Errorf("%s, %s: %s:\n%s", s.File, name, problem, errs)
		}
		if cases%sample != 0 && w.Kind != documenttest.DuplicateEntry && w.Kind != documenttest.UnknownReference {
			continue
		}
		write(t, file, w.Text+"xxxyyy: 1\n")
		_, _, both := said(s.Part, "check", "-c", file)
		var others string
		for line := range strings.Lines(both) {
			if !strings.Contains(line, ": xxxyyy: is not a key (one of ") {
				others += line
			}
		}
		if others != errs || others == both {
			t.Errorf("%s, %s, with an unknown key beside it:\n%s\nwithout:\n%s", s.File, name, both, errs)
		}
	}
	return cases
}

// sample is of how many wrong inputs one is checked with another mistake beside it, too.
const sample = 5

// judge says what is wrong with the answer to a wrong input; "" if nothing.
func judge(w *documenttest.Wrong, file string, status int, out, errs string) string {
	line, more, _ := strings.Cut(errs, "\n")
	_, rest, _ := strings.Cut(line, ": "+file+":")
	at := place.FindStringSubmatch(rest)
	if status != cli.Usage || out != "" {
		return fmt.Sprintf("status %d, output %q, want %d and none", status, out, cli.Usage)
	}
	if at == nil {
		return "no place"
	}
	number, _ := strconv.Atoi(at[1])
	switch within := w.Kind == documenttest.DuplicateEntry && number >= w.At.Line; { // such an entry may have several values that only one may have
	case within && offers.MatchString(line):
		return ""
	case more != "":
		return "more than one line"
	case w.Kind == documenttest.UnknownReference && number == w.At.Line && w.Remedy.MatchString(line):
		return ""
	case at[0] != fmt.Sprintf("%d:%d: ", w.At.Line, w.At.Column):
		return fmt.Sprintf("not at %d:%d", w.At.Line, w.At.Column)
	case !w.Remedy.MatchString(line):
		return fmt.Sprintf("no remedy like %s", w.Remedy)
	}
	return ""
}

var (
	place  = regexp.MustCompile(`^(\d+):\d+: `)
	offers = regexp.MustCompile(`\(.+\)$`)
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// named matches the files that examples name.
var named = regexp.MustCompile(`/etc/baton/[a-z0-9.-]+`)

// aName matches the names in examples: a certificate is for all of them.
var aName = regexp.MustCompile(`(?:name|host|sni): "?([a-z0-9*.-]+)`)

// withFiles returns the text with files of a directory in place of those that it names.
func withFiles(t *testing.T, dir, text string, contents map[string]string) string {
	t.Helper()
	var names []string
	for _, m := range aName.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	certificate, key := identity(t, names)
	for name, content := range contents {
		write(t, filepath.Join(dir, name), content)
	}
	return named.ReplaceAllStringFunc(text, func(path string) string {
		name := filepath.Base(path)
		content, ok := contents[name]
		switch {
		case ok:
		case strings.HasSuffix(name, "key.pem"), strings.HasSuffix(name, ".key"):
			content = key
		default:
			content = certificate
		}
		path = filepath.Join(dir, name)
		write(t, path, content)
		return path
	})
}

// identity makes a certificate that is its own authority, and its key.
func identity(t *testing.T, names []string) (certificate, private string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "example.net"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private8}))
}
