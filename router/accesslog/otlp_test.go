package accesslog

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	logs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	traces "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	log "go.opentelemetry.io/proto/slim/otlp/logs/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"baton/router/config"
)

// exported wraps records as a collector gets them.
func exported(signal config.Signal, records ...Record) []byte {
	o := &otlp{signal: signal}
	var data []byte
	for i := range records {
		data = o.append(data, &records[i])
	}
	return appendRequest(nil, resource(sender{"h", 7}, "1.2.3"), data)
}

// attributes of a message by their keys, as Go has them.
func attributes(t *testing.T, all []*common.KeyValue) map[string]any {
	t.Helper()
	out := make(map[string]any)
	for _, a := range all {
		if _, twice := out[a.Key]; twice {
			t.Errorf("attribute %s is there twice", a.Key)
		}
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			out[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			out[a.Key] = v.IntValue
		case *common.AnyValue_DoubleValue:
			out[a.Key] = v.DoubleValue
		case *common.AnyValue_BoolValue:
			out[a.Key] = v.BoolValue
		case *common.AnyValue_ArrayValue:
			var texts []string
			for _, e := range v.ArrayValue.Values {
				texts = append(texts, e.GetStringValue())
			}
			out[a.Key] = texts
		default:
			t.Errorf("attribute %s has a %T", a.Key, v)
		}
	}
	return out
}

var sampleAttributes = map[string]any{
	"client.address": "192.0.2.7", "client.port": int64(50123), "network.local.address": "10.9.9.9", "network.local.port": int64(80),
	"baton.vip": "cdn", "network.protocol.name": "http", "network.protocol.version": "1.1", "server.address": "cdn.example.net",
	"http.request.method": "GET", "url.path": "/video/1", "url.query": "x=2", "baton.path_truncated": true,
	"http.response.status_code": int64(200), "baton.surrogate": "s1", "baton.surrogate_address": "2001:db8::1",
	"baton.surrogate_port": int64(8080), "baton.pool": "video", "baton.bytes_received": int64(120), "baton.bytes_sent": int64(1 << 40),
	"baton.bytes_of_session": true, "baton.first_byte_seconds": 0.0015, "baton.duration_seconds": 2.25,
	"baton.client_retransmissions": int64(1), "baton.surrogate_retransmissions": int64(2), "baton.end": "server-fin",
	"baton.served": "proxied", "user_agent.original": "curl/7.88.1", "http.request.header.referer": []string{"http://a.example/"},
}

func logRecords(t *testing.T, body []byte) []*log.LogRecord {
	t.Helper()
	var m logs.ExportLogsServiceRequest
	unmarshal(t, body, &m)
	if len(m.ResourceLogs) != 1 || len(m.ResourceLogs[0].ScopeLogs) != 1 {
		t.Fatalf("not one resource with one scope: %v", &m)
	}
	scope := m.ResourceLogs[0].ScopeLogs[0]
	checkOrigin(t, m.ResourceLogs[0].Resource.Attributes, scope.Scope)
	return scope.LogRecords
}

// unmarshal refuses what the message does not know.
func unmarshal(t *testing.T, body []byte, m proto.Message) {
	t.Helper()
	if err := proto.Unmarshal(body, m); err != nil {
		t.Fatal(err)
	}
	again, err := proto.Marshal(m)
	if err != nil || len(again) != len(body) {
		t.Errorf("%d bytes, %d when written again: %v", len(body), len(again), err)
	}
	if unknown := m.ProtoReflect().GetUnknown(); len(unknown) > 0 {
		t.Errorf("unknown fields %x", unknown)
	}
}

func checkOrigin(t *testing.T, resource []*common.KeyValue, scope *common.InstrumentationScope) {
	t.Helper()
	got := attributes(t, resource)
	if got["service.name"] != "baton-router" || got["service.version"] == "" || got["host.name"] == "" || got["service.instance.id"] == "" ||
		scope.Name != "baton/router/accesslog" {
		t.Errorf("resource %v, scope %v", got, scope)
	}
}

func TestLogRecords(t *testing.T) {
	known, tls := sample(), session()
	failed := Record{Time: known.Time, Method: []byte("a\xffb"), Status: 503, End: Failed, Path: []byte("/\xff?\xfe")}
	got := logRecords(t, exported(config.SignalLogs, known, tls, failed))
	if len(got) != 3 {
		t.Fatalf("%d records, want 3", len(got))
	}
	r := got[0]
	want := &log.LogRecord{
		TimeUnixNano: uint64(known.Time.UnixNano()), ObservedTimeUnixNano: uint64(known.Time.Add(2250 * time.Millisecond).UnixNano()),
		SeverityNumber: log.SeverityNumber_SEVERITY_NUMBER_INFO, SeverityText: "INFO",
		Body:    &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: "GET"}},
		TraceId: known.ID[:], SpanId: known.ID[:8], EventName: "baton.access", Attributes: r.Attributes,
	}
	if !proto.Equal(r, want) {
		t.Errorf("record\n got %v\nwant %v", r, want)
	}
	if diff := cmp.Diff(sampleAttributes, attributes(t, r.Attributes)); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if got[1].TraceId != nil || got[1].SpanId != nil || got[1].Body.GetStringValue() != "tls" {
		t.Errorf("a session without id: %v", got[1])
	}
	a := attributes(t, got[2].Attributes)
	if got[2].SeverityNumber != log.SeverityNumber_SEVERITY_NUMBER_ERROR || a["http.request.method"] != "a\ufffdb" || a["url.path"] != "/\ufffd" ||
		a["url.query"] != "\ufffd" || a["baton.end"] != "failed" {
		t.Errorf("a failed request: %v", got[2])
	}
}

func TestSpans(t *testing.T) {
	known := sample()
	failed := Record{Time: known.Time, Client: known.Client, Status: 500, Duration: -1}
	var m traces.ExportTraceServiceRequest
	unmarshal(t, exported(config.SignalSpans, known, failed), &m)
	scope := m.ResourceSpans[0].ScopeSpans[0]
	checkOrigin(t, m.ResourceSpans[0].Resource.Attributes, scope.Scope)
	got := scope.Spans[0]
	at := func(d time.Duration) uint64 { return uint64(known.Time.Add(d).UnixNano()) }
	want := &trace.Span{
		TraceId: known.ID[:], SpanId: known.ID[:8], Name: "GET", Kind: trace.Span_SPAN_KIND_SERVER, StartTimeUnixNano: at(0),
		EndTimeUnixNano: at(known.Duration), Attributes: got.Attributes,
		Events: []*trace.Span_Event{{TimeUnixNano: at(known.FirstByte), Name: "first byte"}},
	}
	if !proto.Equal(got, want) {
		t.Errorf("span\n got %v\nwant %v", got, want)
	}
	if diff := cmp.Diff(sampleAttributes, attributes(t, got.Attributes)); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	bad := scope.Spans[1]
	id := failed.identity()
	if bad.Status.GetCode() != trace.Status_STATUS_CODE_ERROR || string(bad.TraceId) != string(id[:]) || len(bad.SpanId) != 8 ||
		bad.EndTimeUnixNano != at(0) || bad.Name != "http" {
		t.Errorf("a failed request: %v", bad)
	}
}

func TestRejected(t *testing.T) {
	response := func(n int64, message string) []byte {
		b, err := proto.Marshal(&logs.ExportLogsServiceResponse{PartialSuccess: &logs.ExportLogsPartialSuccess{RejectedLogRecords: n, ErrorMessage: message}})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, tt := range []struct {
		response []byte
		n        int64
		message  string
	}{
		{nil, 0, ""}, {response(0, ""), 0, ""}, {response(3, "too old"), 3, "too old"}, {response(0, "slower"), 0, "slower"},
		{[]byte("\xff\xff not protobuf"), 0, ""}, {response(3, "too old")[:4], 0, ""},
	} {
		if n, message := rejected(tt.response); n != tt.n || message != tt.message {
			t.Errorf("rejected(%x) = %d, %q, want %d, %q", tt.response, n, message, tt.n, tt.message)
		}
	}
}

// FuzzExport: a collector can read whatever a stranger has sent.
func FuzzExport(f *testing.F) {
	f.Add([]byte("cdn.example.net"), []byte("GET"), []byte("/video/1?x=2"), []byte("curl"), []byte("-"), int64(200))
	f.Add([]byte("\xff"), []byte("\x00\xc3"), []byte("?\xff?"), []byte(""), []byte("\xf0\x9f\x98"), int64(-5))
	f.Fuzz(func(t *testing.T, host, method, path, agent, referer []byte, number int64) {
		r := Record{
			Time: time.Unix(0, number), Host: host, Method: method, Path: path, UserAgent: agent, Referer: referer, Status: int(number),
			FromClient: uint64(number), Duration: time.Duration(number), FirstByte: time.Duration(number), End: End(number), Served: Served(number),
			Protocol: Protocol(number), Version: Version(number), ClientRetransmissions: uint32(number),
		}
		if got := logRecords(t, exported(config.SignalLogs, r, r)); len(got) != 2 || !proto.Equal(got[0], got[1]) {
			t.Fatalf("%d records of two", len(got))
		}
		var m traces.ExportTraceServiceRequest
		unmarshal(t, exported(config.SignalSpans, r, r), &m)
		if n := len(m.ResourceSpans[0].ScopeSpans[0].Spans); n != 2 {
			t.Fatalf("%d spans of two", n)
		}
	})
}

// FuzzRejected: whatever a collector answers is understood or ignored.
func FuzzRejected(f *testing.F) {
	f.Add([]byte{0x0a, 0x02, 0x08, 0x03})
	f.Fuzz(func(t *testing.T, response []byte) {
		n, message := rejected(response)
		var m logs.ExportLogsServiceResponse
		if proto.Unmarshal(response, &m) == nil && m.PartialSuccess == nil && (n != 0 || message != "") {
			t.Fatalf("%d rejected, %q, of a response without either", n, message)
		}
	})
}
