package peers

import (
	"context"
	"crypto/sha256"
	_ "embed" // for the page
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"os"
	"strings"

	"baton/lab"
)

// visitPage has Chromium make a Visit; it is on the Site.
//
//go:embed visit.html
var visitPage []byte

// ChromiumHTTP3 is headless Chromium, made to use QUIC for the name. It resumes a session (Visit.Again) at servers that close a connection when
// asked to, by the path /close. Its requests behind the page are in the page's connection, so the first Visited tells of that.
func ChromiumHTTP3(ctx context.Context, h *lab.Host, v Visit) ([]Visited, error) {
	key, err := v.Authorities.keyOf(v.Name)
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("https://%s/visit.html?path=%s", v.Name, v.Path)
	if v.Again {
		url += "&again=1"
	}
	dom, err := Chromium(ctx, h, url,
		"--enable-quic", "--origin-to-force-quic-on="+v.Name+":443",
		fmt.Sprintf("--host-resolver-rules=MAP %s:443 %s", v.Name, v.To),
		"--ignore-certificate-errors-spki-list="+key) // QUIC takes no other certificates than those of public authorities
	if err != nil {
		return nil, err
	}
	_, said, ok := strings.Cut(dom, `<pre id="said">`)
	said, _, end := strings.Cut(said, "</pre>")
	if !ok || !end {
		return nil, errors.New("chromium did not load the page")
	}
	var all []Visited
	for line := range strings.Lines(html.UnescapeString(said)) {
		var one struct {
			heard
			Differs int    `json:"differs"`
			Error   string `json:"error"`
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			return all, fmt.Errorf("chromium says %q", line)
		}
		switch {
		case one.Error != "":
			return all, fmt.Errorf("chromium: %s", one.Error)
		case one.Status != 200:
			return all, fmt.Errorf("status %d", one.Status)
		case one.Bytes != Files[v.Path]:
			return all, fmt.Errorf("%s: %d bytes, want %d", v.Path, one.Bytes, Files[v.Path])
		case one.Differs >= 0:
			return all, fmt.Errorf("%s: byte %d differs", v.Path, one.Differs)
		}
		all = append(all, Visited{one.Surrogate, 1, one.Resumed, one.Early, false})
	}
	if want := map[bool]int{false: 1, true: 2}[v.Again]; len(all) != want {
		return all, fmt.Errorf("chromium: %d responses, want %d", len(all), want)
	}
	return all, nil
}

// keyOf is the hash of the public key in the certificate of that name, as Chromium's option wants it.
func (a *Authority) keyOf(name string) (string, error) {
	certificate, err := os.ReadFile(a.fileOf(name))
	if err != nil {
		return "", err
	}
	parsed, err := parseCertificate(certificate)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(parsed.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:]), nil
}
