package accesslog

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	kernel "baton/datapath/router"
)

// TestSplicedHeads: a record has what is whole in the head's beginning, and the host as sent.
func TestSplicedHeads(t *testing.T) {
	type words struct{ host, method, path, agent, referer, version string }
	for _, tt := range []struct {
		name  string
		given string // as the name
		minor byte
		head  string
		want  words
		cut   bool
	}{
		{"whole", "A.test:80\r\nUser-A", '1', "GET /x?y HTTP/1.1\r\nHost: A.test:80\r\nuser-agent: curl/8\r\nReferer:  http://r \r\n\r\n",
			words{"A.test:80", "GET", "/x?y", "curl/8", "http://r", "1.1"}, false},
		{"without a name", "", 0, "PURGE / HTTP/1.0\r\nX: y\r\nhost:b\r\n\r\nuser-agent: in the body\r\n", words{"b", "PURGE", "/", "", "", "1.0"}, false},
		{"an empty line first", "", 0, "\r\nGET / HTTP/1.1\r\nHost: c\r\n\r\n", words{"c", "GET", "/", "", "", "1.1"}, false},
		{"cut in the path", "d", '1', "GET /long", words{"d", "GET", "/long", "", "", "1.1"}, true},
		{"cut in the path, decided by user space", "d", 0, "GET /long", words{"d", "GET", "/long", "", "", ""}, true},
		{"cut in a field", "e", '1', "GET / HTTP/1.1\r\nReferer: http://r\r\nUser-Agent: Moz", words{"e", "GET", "/", "", "http://r", "1.1"}, false},
		{"cut in the method", "f", 0, "GE", words{host: "f"}, false},
		{"nothing", "", 0, "", words{}, false},
		{"nothing between", "", 0, "GET  HTTP/1.1\r\n\r\n", words{method: "GET", version: "1.1"}, false},
	} {
		rec := splicedRecord(&kernel.LogRecord{Minor: tt.minor, Complete: true}, []byte(tt.given), []byte(tt.head))
		got := words{string(rec.Host), string(rec.Method), string(rec.Path), string(rec.UserAgent), string(rec.Referer), rec.Version.String()}
		if got != tt.want || rec.PathCut != tt.cut {
			t.Errorf("%s: %+v, cut %t, want %+v", tt.name, got, rec.PathCut, tt.want)
		}
	}
}

func TestSplicedEnds(t *testing.T) {
	for _, tt := range []struct {
		k    kernel.LogRecord
		want End
	}{
		{kernel.LogRecord{Complete: true}, Complete},
		{kernel.LogRecord{Complete: true, ServerFirst: true}, Complete},
		{kernel.LogRecord{End: kernel.Closed, ClientFirst: true}, ClientFIN},
		{kernel.LogRecord{End: kernel.Closed, ServerFirst: true}, ServerFIN},
		{kernel.LogRecord{End: kernel.ServerReset, ClientFirst: true}, ClientFIN},
		{kernel.LogRecord{End: kernel.ClientReset, ServerFirst: true}, ServerFIN},
		{kernel.LogRecord{End: kernel.Closed, ClientFirst: true, Unfinished: true}, ClientRST},
		{kernel.LogRecord{End: kernel.Closed, ServerFirst: true, Unfinished: true}, ServerRST},
		{kernel.LogRecord{End: kernel.ClientReset, Unfinished: true}, ClientRST},
		{kernel.LogRecord{End: kernel.ClientReset}, ClientRST},
		{kernel.LogRecord{End: kernel.ClientReset, ServerFirst: true, Unfinished: true}, ServerRST},
		{kernel.LogRecord{End: kernel.ServerReset, Unfinished: true}, ServerRST},
		{kernel.LogRecord{End: kernel.ServerReset, ClientFirst: true, Unfinished: true}, ClientRST},
		{kernel.LogRecord{End: kernel.Expired, ClientFirst: true}, Timeout},
		{kernel.LogRecord{End: kernel.Replaced}, Replaced},
		{kernel.LogRecord{End: kernel.Failed, Unfinished: true}, Moved},
		{kernel.LogRecord{End: kernel.Abandoned, Unfinished: true}, Moved},
		{kernel.LogRecord{End: kernel.Refused, Unfinished: true}, Failed},
		{kernel.LogRecord{End: kernel.Cut}, Cut},
		{kernel.LogRecord{End: kernel.Malformed}, Malformed},
	} {
		if got := endOf(&tt.k); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.k, got, tt.want)
		}
	}
}

// TestSplicedBytes: bytes of a record stay as they are while others are added.
func TestSplicedBytes(t *testing.T) {
	var l KernelRecords
	var kept [][]byte
	var want []string
	for i := range 1000 {
		s := string(rune('a'+i%26)) + "bc"
		kept, want = append(kept, l.keep([]byte(s))), append(want, s)
	}
	for i, b := range kept {
		if diff := cmp.Diff(want[i], string(b)); diff != "" {
			t.Fatal(diff)
		}
	}
}
