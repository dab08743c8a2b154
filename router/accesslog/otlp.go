package accesslog

import (
	"bytes"
	"encoding/binary"
	"math"
	"net/netip"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"baton/router/config"
)

// Field numbers of opentelemetry/proto. Those of logs and of spans are the same where a name has no signal in it.
const (
	fieldKey, fieldValue                     protowire.Number = 1, 2    // common.v1.KeyValue
	fieldString, fieldBool, fieldInt         protowire.Number = 1, 2, 3 // common.v1.AnyValue
	fieldDouble, fieldArray                  protowire.Number = 4, 5
	fieldElement                             protowire.Number = 1 // common.v1.ArrayValue
	fieldScopeName                           protowire.Number = 1 // common.v1.InstrumentationScope
	fieldResourceAttribute                   protowire.Number = 1
	fieldResource, fieldScopes               protowire.Number = 1, 2 // ResourceLogs, ResourceSpans
	fieldScope, fieldRecords                 protowire.Number = 1, 2 // ScopeLogs, ScopeSpans
	fieldResources                           protowire.Number = 1    // ExportLogsServiceRequest, ExportTraceServiceRequest
	fieldPartial                             protowire.Number = 1    // of their responses
	fieldRejected, fieldMessage              protowire.Number = 1, 2
	logTime, logSeverity, logSeverityText    protowire.Number = 1, 2, 3 // logs.v1.LogRecord
	logBody, logAttribute, logTrace          protowire.Number = 5, 6, 9
	logSpan, logObserved, logEvent           protowire.Number = 10, 11, 12
	spanTrace, spanID, spanName              protowire.Number = 1, 2, 5 // trace.v1.Span
	spanKind, spanStart, spanEnd             protowire.Number = 6, 7, 8
	spanAttribute, spanEvent, spanStatus     protowire.Number = 9, 11, 15
	eventTime, eventName, statusCode         protowire.Number = 1, 2, 3
	spanKindServer, statusError              uint64           = 2, 2
	severityNumberInfo, severityNumberErrors uint64           = 9, 17
)

// otlp appends a record as an element of ScopeLogs or ScopeSpans. It writes the wire format itself: the messages of the official module cost
// a hundred allocations a record.
type otlp struct {
	signal  config.Signal
	record  []byte
	text    []byte // a text that had to be made UTF-8, which proto3 insists on
	element []byte
	id      [16]byte
}

func (o *otlp) append(dst []byte, r *Record) []byte {
	if o.signal == config.SignalSpans {
		o.record = o.span(o.record[:0], r)
	} else {
		o.record = o.log(o.record[:0], r)
	}
	return appendMessage(dst, fieldRecords, o.record)
}

func (o *otlp) log(m []byte, r *Record) []byte {
	severity, text := severityNumberInfo, "INFO"
	if r.Error() {
		severity, text = severityNumberErrors, "ERROR"
	}
	m = appendTime(m, logTime, r.Time)
	m = appendTime(m, logObserved, r.Time.Add(r.Duration))
	m = appendUint(m, logSeverity, severity)
	m = appendMessage(m, logSeverityText, text)
	o.element = appendMessage(o.element[:0], fieldString, o.valid(r.title()))
	m = appendMessage(m, logBody, o.element)
	m = o.attributes(m, logAttribute, r)
	if r.ID != [16]byte{} {
		m = appendMessage(m, logTrace, r.ID[:])
		m = appendMessage(m, logSpan, spanOf(&r.ID))
	}
	return appendMessage(m, logEvent, "baton.access")
}

func (o *otlp) span(m []byte, r *Record) []byte {
	o.id = r.identity()
	m = appendMessage(m, spanTrace, o.id[:])
	m = appendMessage(m, spanID, spanOf(&o.id))
	m = appendMessage(m, spanName, o.valid(r.title()))
	m = appendUint(m, spanKind, spanKindServer)
	m = appendTime(m, spanStart, r.Time)
	m = appendTime(m, spanEnd, r.Time.Add(max(r.Duration, 0)))
	m = o.attributes(m, spanAttribute, r)
	if r.FirstByte > 0 {
		o.element = appendTime(o.element[:0], eventTime, r.Time.Add(r.FirstByte))
		o.element = appendMessage(o.element, eventName, "first byte")
		m = appendMessage(m, spanEvent, o.element)
	}
	if r.Error() {
		o.element = appendUint(o.element[:0], statusCode, statusError)
		m = appendMessage(m, spanStatus, o.element)
	}
	return m
}

// spanOf is a span's id for that of a trace: neither may be all zeros.
func spanOf(id *[16]byte) []byte {
	if binary.BigEndian.Uint64(id[:8]) == 0 { // which is no id
		return id[8:]
	}
	return id[:8] // a kept connection's requests have the rest in common
}

// title is of few different values, as names of spans should be.
func (r *Record) title() []byte {
	if len(r.Method) > 0 {
		return cut(r.Method, longestToken)
	}
	return protocolTitles[min(int(r.Protocol), len(protocolTitles)-1)]
}

var protocolTitles = [...][]byte{[]byte("http"), []byte("tls"), []byte("quic"), []byte("unknown")}

// The keys of attributes: the names of the semantic conventions where there are some, else baton. and the key of the JSON format.
var (
	keyClientAddress            = newKey("client.address")
	keyClientPort               = newKey("client.port")
	keyNetworkLocalAddress      = newKey("network.local.address")
	keyNetworkLocalPort         = newKey("network.local.port")
	keyVIP                      = newKey("baton.vip")
	keyNetworkProtocolName      = newKey("network.protocol.name")
	keyNetworkProtocolVersion   = newKey("network.protocol.version")
	keyServerAddress            = newKey("server.address")
	keyHTTPRequestMethod        = newKey("http.request.method")
	keyURLPath                  = newKey("url.path")
	keyURLQuery                 = newKey("url.query")
	keyPathTruncated            = newKey("baton.path_truncated")
	keyHTTPResponseStatusCode   = newKey("http.response.status_code")
	keySurrogate                = newKey("baton.surrogate")
	keySurrogateAddress         = newKey("baton.surrogate_address")
	keySurrogatePort            = newKey("baton.surrogate_port")
	keyPool                     = newKey("baton.pool")
	keyBytesReceived            = newKey("baton.bytes_received")
	keyBytesSent                = newKey("baton.bytes_sent")
	keyBytesOfSession           = newKey("baton.bytes_of_session")
	keyFirstByteSeconds         = newKey("baton.first_byte_seconds")
	keyDurationSeconds          = newKey("baton.duration_seconds")
	keyClientRetransmissions    = newKey("baton.client_retransmissions")
	keySurrogateRetransmissions = newKey("baton.surrogate_retransmissions")
	keyEnd                      = newKey("baton.end")
	keyServed                   = newKey("baton.served")
	keyUserAgentOriginal        = newKey("user_agent.original")
	keyHTTPRequestHeaderReferer = newKey("http.request.header.referer")
)

// key is an attribute's, as it is encoded, with the tag of the value behind it.
type key []byte

func newKey(name string) key {
	return appendTag(appendMessage(nil, fieldKey, name), fieldValue, protowire.BytesType)
}

func (o *otlp) attributes(m []byte, field protowire.Number, r *Record) []byte {
	m = appendEndpoint(m, field, keyClientAddress, keyClientPort, r.Client)
	m = appendEndpoint(m, field, keyNetworkLocalAddress, keyNetworkLocalPort, r.VIP)
	m = appendString(m, field, keyVIP, r.VIPName)
	m = appendString(m, field, keyNetworkProtocolName, r.Protocol.String())
	m = appendString(m, field, keyNetworkProtocolVersion, r.Version.String())
	m = appendString(m, field, keyServerAddress, o.valid(cut(r.Host, longestHost)))
	m = appendString(m, field, keyHTTPRequestMethod, o.valid(cut(r.Method, longestToken)))
	path, isCut := r.path()
	path, query, _ := bytes.Cut(path, []byte("?"))
	m = appendString(m, field, keyURLPath, o.valid(path))
	m = appendString(m, field, keyURLQuery, o.valid(query))
	if isCut {
		m = appendBool(m, field, keyPathTruncated)
	}
	if r.Status > 0 {
		m = appendInt(m, field, keyHTTPResponseStatusCode, uint64(r.Status))
	}
	m = appendString(m, field, keySurrogate, r.Surrogate)
	m = appendEndpoint(m, field, keySurrogateAddress, keySurrogatePort, r.SurrogateAddress)
	m = appendString(m, field, keyPool, r.Pool)
	m = appendInt(m, field, keyBytesReceived, r.FromClient)
	m = appendInt(m, field, keyBytesSent, r.FromSurrogate)
	if r.WholeSession {
		m = appendBool(m, field, keyBytesOfSession)
	}
	if r.FirstByte > 0 {
		m = appendDouble(m, field, keyFirstByteSeconds, r.FirstByte.Seconds())
	}
	m = appendDouble(m, field, keyDurationSeconds, max(r.Duration, 0).Seconds())
	m = appendInt(m, field, keyClientRetransmissions, uint64(r.ClientRetransmissions))
	m = appendInt(m, field, keySurrogateRetransmissions, uint64(r.SurrogateRetransmissions))
	m = appendString(m, field, keyEnd, r.End.String())
	m = appendString(m, field, keyServed, r.Served.String())
	m = appendString(m, field, keyUserAgentOriginal, o.valid(cut(r.UserAgent, longestPath)))
	if len(r.Referer) > 0 {
		m = o.appendArray(m, field, keyHTTPRequestHeaderReferer, o.valid(cut(r.Referer, longestPath)))
	}
	return m
}

// valid is a text as proto3 takes it; it holds until the next call.
func (o *otlp) valid(s []byte) []byte {
	if utf8.Valid(s) {
		return s
	}
	o.text = o.text[:0]
	for len(s) > 0 {
		r, n := utf8.DecodeRune(s)
		o.text = utf8.AppendRune(o.text, r)
		s = s[n:]
	}
	return o.text
}

// appendArray writes a text as the one element of an array, as the conventions have the headers of a request.
func (o *otlp) appendArray(m []byte, field protowire.Number, k key, s []byte) []byte {
	element := 1 + protowire.SizeBytes(len(s))
	values := 1 + protowire.SizeBytes(element)
	m = appendKey(m, field, k, 1+protowire.SizeBytes(values))
	m = appendLength(m, fieldArray, values)
	m = appendLength(m, fieldElement, element)
	return appendMessage(m, fieldString, s)
}

// appendKey begins an attribute whose value has a size.
func appendKey(m []byte, field protowire.Number, k key, value int) []byte {
	m = appendLength(m, field, len(k)+protowire.SizeBytes(value))
	return appendVarint(append(m, k...), uint64(value))
}

// appendString writes an attribute, unless it is empty.
func appendString[T string | []byte](m []byte, field protowire.Number, k key, s T) []byte {
	if len(s) == 0 {
		return m
	}
	m = appendKey(m, field, k, 1+protowire.SizeBytes(len(s)))
	return appendMessage(m, fieldString, s)
}

func appendInt(m []byte, field protowire.Number, k key, v uint64) []byte {
	m = appendKey(m, field, k, 1+protowire.SizeVarint(v))
	return appendUint(m, fieldInt, v)
}

func appendDouble(m []byte, field protowire.Number, k key, v float64) []byte {
	m = appendKey(m, field, k, 1+protowire.SizeFixed64())
	m = appendTag(m, fieldDouble, protowire.Fixed64Type)
	return protowire.AppendFixed64(m, math.Float64bits(v))
}

func appendBool(m []byte, field protowire.Number, k key) []byte {
	return appendUint(appendKey(m, field, k, 2), fieldBool, 1)
}

func appendEndpoint(m []byte, field protowire.Number, address, port key, a netip.AddrPort) []byte {
	if !a.IsValid() {
		return m
	}
	var text [48]byte
	m = appendString(m, field, address, a.Addr().Unmap().WithZone("").AppendTo(text[:0]))
	return appendInt(m, field, port, uint64(a.Port()))
}

// appendLength begins a field of a message, a text or bytes.
func appendLength(m []byte, field protowire.Number, length int) []byte {
	return appendVarint(appendTag(m, field, protowire.BytesType), uint64(length))
}

// appendVarint saves the call for a single byte, which tags and most lengths are.
func appendVarint(m []byte, v uint64) []byte {
	if v < 0x80 {
		return append(m, byte(v))
	}
	return protowire.AppendVarint(m, v)
}

func appendTag(m []byte, field protowire.Number, kind protowire.Type) []byte {
	return appendVarint(m, protowire.EncodeTag(field, kind))
}

func appendMessage[T string | []byte](m []byte, field protowire.Number, content T) []byte {
	return append(appendLength(m, field, len(content)), content...)
}

func appendUint(m []byte, field protowire.Number, v uint64) []byte {
	return appendVarint(appendTag(m, field, protowire.VarintType), v)
}

// appendTime omits zero, as proto3 does.
func appendTime(m []byte, field protowire.Number, t time.Time) []byte {
	if t.UnixNano() == 0 {
		return m
	}
	return binary.LittleEndian.AppendUint64(appendTag(m, field, protowire.Fixed64Type), uint64(t.UnixNano()))
}

// resource says who logs: a Resource message.
func resource(from sender, version string) (m []byte) {
	for _, a := range [][2]string{
		{"service.name", "baton-router"}, {"service.version", version}, {"service.instance.id", from.host + ":" + strconv.Itoa(from.pid)}, {"host.name", from.host},
	} {
		m = appendString(m, fieldResourceAttribute, newKey(a[0]), a[1])
	}
	return m
}

// appendRequest wraps records into the body of an export.
func appendRequest(dst, resource, records []byte) []byte {
	const scope = "baton/router/accesslog"
	scopeSize := 1 + protowire.SizeBytes(len(scope))
	records1 := 1 + protowire.SizeBytes(scopeSize) + len(records)
	dst = appendLength(dst, fieldResources, 1+protowire.SizeBytes(len(resource))+1+protowire.SizeBytes(records1))
	dst = appendMessage(dst, fieldResource, resource)
	dst = appendLength(dst, fieldScopes, records1)
	dst = appendLength(dst, fieldScope, scopeSize)
	dst = appendMessage(dst, fieldScopeName, scope)
	return append(dst, records...)
}

// rejected reads how many records a collector did not take, and why, from its response.
func rejected(response []byte) (n int64, message string) {
	partial := field(response, fieldPartial, protowire.BytesType)
	if v, size := protowire.ConsumeVarint(field(partial, fieldRejected, protowire.VarintType)); size > 0 {
		n = int64(v)
	}
	return n, string(field(partial, fieldMessage, protowire.BytesType))
}

// field is the content of the first field of that number: of a varint its encoding. Nil: there is none, or m is no message.
func field(m []byte, number protowire.Number, kind protowire.Type) []byte {
	for len(m) > 0 {
		n, t, tag := protowire.ConsumeTag(m)
		if tag < 0 {
			return nil
		}
		size := protowire.ConsumeFieldValue(n, t, m[tag:])
		if size < 0 {
			return nil
		}
		if n == number && t == kind {
			value := m[tag : tag+size]
			if kind == protowire.BytesType {
				value, _ = protowire.ConsumeBytes(value)
			}
			return value
		}
		m = m[tag+size:]
	}
	return nil
}
