package router

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"baton/datapath"
)

// logRing is the size of the ring of records in bytes: half a second at 30,000 requests a second.
const logRing = 8 << 20

// logsEvery bounds how long a record stays unread: the kernel wakes the reader only for many.
const logsEvery = 100 * time.Millisecond

// logsAtOnce bounds a batch.
const logsAtOnce = 4096

// logs are the places of records of what is spliced. They exist once a VIP is logged.
type logs struct {
	sync.Mutex
	on    bool
	pages uint32
	ring  *ebpf.Map
}

// adoptLogs finds what an earlier process has made.
func (r *Router) adoptLogs() error {
	l := &r.logs
	l.Lock()
	defer l.Unlock()
	err := r.maps.LogRings.Lookup(uint32(0), &l.ring)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	l.on = true
	for ; err == nil && l.pages < r.maps.LogPages.MaxEntries(); l.pages++ {
		var page *ebpf.Map
		err = r.maps.LogPages.Lookup(l.pages, &page)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		if err == nil {
			err = page.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("adopt the places of log records: %w", err)
	}
	return nil
}

// startLogs makes places for the records of all splices that have been used, and of those that will be.
func (r *Router) startLogs() error {
	l := &r.logs
	l.Lock()
	defer l.Unlock()
	if l.ring == nil {
		ring, err := ebpf.NewMap(&ebpf.MapSpec{Name: "log_ring", Type: ebpf.RingBuf, MaxEntries: logRing})
		if err != nil {
			return fmt.Errorf("make the ring of log records: %w", err)
		}
		if err := r.maps.LogRings.Update(uint32(0), ring, ebpf.UpdateAny); err != nil {
			ring.Close()
			return fmt.Errorf("make the ring of log records: %w", err)
		}
		l.ring = ring
	}
	l.on = true
	return r.makePages()
}

// makePages makes the pages up to the highest splice in use. Called with the lock.
func (r *Router) makePages() error {
	l := &r.logs
	size := uint32(routerBoundLOG_PAGE)
	for l.on && l.pages*size < r.top.Load() {
		page, err := ebpf.NewMap(&ebpf.MapSpec{
			Name: "log_page", Type: ebpf.Array, KeySize: 4, ValueSize: uint32(unsafe.Sizeof(routerRequestLog{})), MaxEntries: size,
		})
		if err != nil {
			return fmt.Errorf("make places for log records: %w", err)
		}
		err = r.maps.LogPages.Update(l.pages, page, ebpf.UpdateAny)
		page.Close()
		if err != nil {
			return fmt.Errorf("make places for log records: %w", err)
		}
		l.pages++
	}
	return nil
}

func (l *logs) close() error { return l.ring.Close() }

// LostLogs counts the records that found no room since the state was created.
func (r *Router) LostLogs() (uint64, error) {
	sums, err := datapath.Sums(r.maps.LogsLost, 1)
	if err != nil {
		return 0, err
	}
	return sums[0], nil
}

// LogRecord is a request that was spliced, or a session whose requests are not tracked.
type LogRecord struct {
	Time        time.Time     // of the first byte
	FirstByte   time.Duration // from then to that of the response; 0: none
	Duration    time.Duration
	Client, VIP netip.AddrPort
	Server      netip.AddrPort // the surrogate
	Surrogate   uint16
	Pool        uint16
	TLS         bool
	Whole       bool   // the bytes are those of the rest of the session
	ToServer    uint64 // bytes, without retransmissions
	ToClient    uint64
	Status      uint16
	Minor       byte // last digit of HTTP's version, 0: see Head

	ClientRetransmissions, ServerRetransmissions uint32

	Complete    bool
	End         End  // unless Complete
	ClientFirst bool // the client sent the first FIN
	ServerFirst bool
	Unfinished  bool // more of the response was due

	ID [16]byte // that the surrogate gets, too, if it gets any: in X-Request-Id or a PROXY header

	Name []byte // the server name, or what begins with the value of Host; the kernel or user space has read it
	Head []byte // the request's first bytes
}

// Logs reads records of what was spliced. The caller closes it.
type Logs struct {
	reader *ringbuf.Reader
	record ringbuf.Record
}

// Logs starts reading. It must come after tables with a VIP that is logged.
func (r *Router) Logs() (*Logs, error) {
	r.logs.Lock()
	defer r.logs.Unlock()
	reader, err := ringbuf.NewReader(r.logs.ring)
	if err != nil {
		return nil, fmt.Errorf("read log records: %w", err)
	}
	return &Logs{reader: reader}, nil
}

// HasLogs reports whether a VIP is or was logged, by this process or an earlier one.
func (r *Router) HasLogs() bool {
	r.logs.Lock()
	defer r.logs.Unlock()
	return r.logs.ring != nil
}

// Read waits for records, for a tenth of a second at most, and calls each for those that are there. Name and Head are valid during
// the call only. False: there may be more.
func (l *Logs) Read(each func(*LogRecord)) (all bool, err error) {
	l.reader.SetDeadline(time.Now().Add(logsEvery))
	return l.read(each)
}

// Rest is Read without waiting.
func (l *Logs) Rest(each func(*LogRecord)) (all bool, err error) {
	l.reader.SetDeadline(time.Now())
	return l.read(each)
}

func (l *Logs) read(each func(*LogRecord)) (all bool, err error) {
	var (
		k      routerRequestLog
		record LogRecord
		wall   time.Time
		now    int64
	)
	for n := range logsAtOnce {
		err := l.reader.ReadInto(&l.record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return true, nil
		}
		if errors.Is(err, ringbuf.ErrClosed) {
			return true, datapath.ErrClosed
		}
		if err != nil {
			return false, fmt.Errorf("read log records: %w", err)
		}
		if n == 0 {
			wall, now = time.Now(), monotonicNow()
		}
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&k)), unsafe.Sizeof(k)), l.record.RawSample)
		k.record(&record)
		record.Time = wall.Add(time.Duration(int64(k.Start) - now))
		each(&record)
	}
	return false, nil
}

// Close makes a blocked Read return.
func (l *Logs) Close() error { return l.reader.Close() }

// monotonicNow is the clock of the records.
func monotonicNow() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

func (k *routerRequestLog) record(to *LogRecord) {
	has := func(flag routerLogFlag) bool { return k.Flags&uint8(flag) != 0 }
	*to = LogRecord{
		Duration: time.Duration(max(int64(k.End-k.Start), 0)), // processors read the clock before they wait for each other
		Client:   datapath.AddrPort(k.Client.Src, k.Client.Sport), VIP: datapath.AddrPort(k.Client.Dst, k.Client.Dport),
		Server: datapath.AddrPort(k.Server.Src, k.Server.Sport), Surrogate: k.Surrogate, Pool: k.Pool,
		TLS: has(routerLogFlagLOG_TLS), Whole: has(routerLogFlagLOG_WHOLE), ToServer: k.ToServer, ToClient: k.ToClient, Status: k.Status, Minor: k.Version,
		ClientRetransmissions: k.ClientAgain, ServerRetransmissions: k.ServerAgain,
		ClientFirst: has(routerLogFlagLOG_CLIENT_FIRST), ServerFirst: has(routerLogFlagLOG_SERVER_FIRST),
		ID: k.id(), Name: k.Name[:min(int(k.NameLen), len(k.Name))], Head: k.Head[:min(int(k.HeadLen), len(k.Head))],
	}
	if k.First > k.Start {
		to.FirstByte = time.Duration(k.First - k.Start)
	}
	to.Complete = routerLogState(k.State) == routerLogStateLOG_COMPLETE
	if to.Complete {
		return
	}
	switch routerFraming(k.Response) {
	case routerFramingFRAMING_HEAD, routerFramingFRAMING_PART, routerFramingFRAMING_BODY, routerFramingFRAMING_CHUNKED:
		to.Unfinished = true
	case routerFramingFRAMING_CLOSE: // the response ends with its connection
		to.Complete = has(routerLogFlagLOG_SERVER_FIN)
	}
	if !to.Complete {
		to.End = End(k.How)
	}
}

// id is put_request_id of bpf/router/edit.h.
func (k *routerRequestLog) id() (id [16]byte) {
	binary.BigEndian.PutUint32(id[0:], k.Seq)
	binary.BigEndian.PutUint32(id[4:], k.Ack)
	binary.NativeEndian.PutUint16(id[8:], k.Client.Sport) // in network order
	binary.NativeEndian.PutUint16(id[10:], k.Client.Dport)
	copy(id[12:], k.Client.Src[12:])
	return id
}

// KeepHead stores what was read of a client's request or hello for its record, before Decide: its name, and the request's first bytes.
func (r *Router) KeepHead(client, vip netip.AddrPort, name, head []byte) {
	var h routerLogHead
	h.NameLen, h.HeadLen = uint16(copy(h.Name[:], name)), uint16(copy(h.Head[:], head))
	_ = r.maps.LogHeads.Update(tuple(client, vip), &h, ebpf.UpdateAny) // full: see log_heads
}
