package flight

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"baton/packet/quic/quictest"
)

// corpus is where the captures are: beside the project, or beside a folder around it.
func corpus(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if path := filepath.Join(dir, "shared", "corpus", "quic"); isDir(path) {
			return path
		}
	}
	t.Skip("SKIP: no captures in shared/corpus/quic")
	return ""
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// captures are what becomes of the clients' datagrams that come before an answer: outcomes, and what the hellos ask for. The beginning
// of quic-decrypt-fail is not in its capture.
var captures = map[string]string{
	"383379789-decrypt-crash.pcap":                              "malformed; malformed",
	"chromium-115.0.5790.110-api-cirrus-com.pcap":               "api.cirrus-ci.com h3",
	"chromium-115.0.5790.110-google-de-fragmented.pcap":         "www.google.de h3",
	"chromium-dpd-custom-port-4433.pcap":                        "api.cirrus-ci.com h3",
	"curl-8.1.2-dev-http3-www-google-de.pcap":                   "www.google.de h3,h3-29,h3-28,h3-27",
	"firefox-102.13.0esr-blog-cloudflare-com.pcap":              "blog.cloudflare.com h3",
	"interop/quic-go_quic-go/handshake.pcap":                    "server4:443 hq-interop",
	"interop/quic-go_quic-go/retry.pcap":                        "server4:443 hq-interop",
	"interop/quic-go_quic-go/zerortt.pcap":                      "server4:443 hq-interop; server4:443 hq-interop",
	"quic-39264-rand.pcap":                                      "more; more; tr6.snapchat.com h3",
	"quic-decrypt-fail-google-de-51833.pcap":                    "more; more; more; more",
	"quic-multiple-initial-fragmented-crypto-only-initial.pcap": "more; more; googleads.g.doubleclick.net h3",
	"quic-multiple-initial-fragmented-crypto.pcap":              "more; more; googleads.g.doubleclick.net h3",
	"quic_win11_firefox_google.pcap":                            "www.google.com h3",
	"quicdoq.pcap":                                              " doq",
	"quicv2-echo-443.pcap":                                      "localhost quic-echo-example",
	"quicv2-echo-dpd-custom-port-4433.pcap":                     "localhost quic-echo-example",
	"quicv2-http3-443.pcap":                                     " h3",
	"vector-max-size-crash.pcap":                                "unknown version",
}

// TestCaptures plays captures of real traffic.
func TestCaptures(t *testing.T) {
	dir := corpus(t)
	for file, want := range captures {
		t.Run(filepath.Base(file), func(t *testing.T) {
			datagrams, err := quictest.ReadPcap(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if got := playCapture(t, datagrams); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// playCapture gives the outcomes, one after the other, of the datagrams that come from where the first long header of a conversation does.
func playCapture(t *testing.T, datagrams []quictest.Datagram) string {
	g := New(Defaults)
	var outcomes []string
	clients := make(map[netip.AddrPort]bool) // which have no hello yet
	servers := make(map[netip.AddrPort]bool)
	for _, d := range datagrams {
		if _, known := clients[d.Src]; !known && !servers[d.Src] {
			clients[d.Src], servers[d.Dst] = true, true
		}
		if !clients[d.Src] {
			clients[d.Dst] = false // answered
			continue
		}
		r := g.Add(Tuple{d.Src, d.Dst}, d.Payload, 0)
		checkResult(t, g, d.Payload, r)
		if r.Outcome == Hello {
			clients[d.Src] = false
			outcomes = append(outcomes, readByStd(t, r.Message))
			continue
		}
		outcomes = append(outcomes, r.text())
	}
	return strings.Join(outcomes, "; ")
}
