package relay_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// actor is what fails.
type actor string

const (
	client  actor = "The client"
	server  actor = "The server"
	first   actor = "The first relay"
	second  actor = "The second relay"
	between actor = "The network between the relays"
)

// fault is how it fails.
type fault string

const (
	resets     fault = "RST"
	closes     fault = "FIN"
	halfCloses fault = "half-close"
	stalls     fault = "stall"
	shutWindow fault = "zero window"
	killed     fault = "killed"
	cutOff     fault = "network cut"
)

// moment is the stage of the flow at the fault.
type moment int

const (
	beforeSYNACK moment = iota
	afterHandshake
	midBody
	afterClientFIN
	afterServerFIN
	moments
)

var momentNames = [moments]string{"before SYN-ACK", "after the handshake", "mid-body", "after the client's FIN", "after the server's FIN"}

// view is what an endpoint observes of a fault elsewhere.
type view string

const (
	goesOn    view = "continues"
	gone      view = "no connection"
	nothing   view = "nothing"
	getsFIN   view = "FIN"
	getsRST   view = "RST"
	losesRST  view = "cut, RST"
	byUnacked view = "RST in `unacked`"
	byConnect view = "RST in `connect`"
	byStop    view = "cut, RST in `stop`"
	byEarly   view = "RST in `early`"
	refused   view = "refused"
	refusedBy view = "refused in `connect`"
)

// legend explains the views, in the order of the document.
var legend = []struct {
	view
	text string
}{
	{goesOn, "no byte is lost in either direction; each direction without another entry ends by FIN, as without relays"},
	{getsFIN, "a FIN after the last byte; the other direction continues"},
	{getsRST, "a reset at once, after all bytes sent before it"},
	{losesRST, "a reset at once; bytes buffered in the relay may be lost"},
	{byUnacked, "a reset after `timeouts.unacked`, after all bytes the relay had"},
	{byConnect, "a reset after `timeouts.connect`"},
	{byStop, "a reset after `timeouts.stop`; bytes buffered in the relay are lost"},
	{byEarly, "its SYN is answered; a reset follows after `timeouts.early`"},
	{refused, "its SYN is answered with a reset, as if the port were closed; if the first relay cannot do so at once, at the next retransmission"},
	{refusedBy, "the same after `timeouts.connect`"},
	{gone, "it never sees the flow, or no longer does"},
	{nothing, "the relays cannot reach it. Once the network is back, its next packet is answered with a reset"},
}

// cell is what the endpoints observe. A failing endpoint has no entry; a combination that cannot happen has a reason instead.
type cell struct {
	client, server view
	never          string // why it cannot happen
}

func never(why string) cell { return cell{never: why} }

func alwaysNever(why string) (cells [moments]cell) {
	for m := range cells {
		cells[m] = never(why)
	}
	return cells
}

// row is one fault at all moments.
type row struct {
	actor
	fault
	cells [moments]cell
}

// canBe reports whether the fault can happen at any moment.
func (r row) canBe() bool {
	return slices.ContainsFunc(r.cells[:], func(c cell) bool { return c.never == "" })
}

// Reasons why a cell cannot happen.
const (
	noBytes = "no data is sent to it"
	saysNil = "it has no more data to send"
	saidFIN = "its FIN is already sent"
	noFlow  = "it has no connection"
	noFIN   = "a relay never ends a flow by its own FIN"
	asStall = "same as a stall"
)

func seenByServer(v view) cell { return cell{server: v} }
func seenByClient(v view) cell { return cell{client: v} }
func seenByBoth(v view) cell   { return cell{client: v, server: v} }

// faults is the table.
var faults = []row{
	{client, resets, [moments]cell{
		seenByServer(gone), seenByServer(getsRST), seenByServer(getsRST), seenByServer(getsRST), seenByServer(getsRST)}},
	{client, closes, [moments]cell{ // mid-body, unread data makes the kernel send RST
		seenByServer(getsFIN), seenByServer(getsFIN), seenByServer(getsRST), seenByServer(getsRST), seenByServer(getsFIN)}},
	{client, halfCloses, [moments]cell{
		seenByServer(getsFIN), seenByServer(getsFIN), seenByServer(getsFIN), never(saidFIN), seenByServer(getsFIN)}},
	{client, stalls, [moments]cell{
		seenByServer(goesOn), seenByServer(goesOn), seenByServer(goesOn), never(saysNil), seenByServer(goesOn)}},
	{client, shutWindow, [moments]cell{
		never(noBytes), seenByServer(goesOn), seenByServer(goesOn), seenByServer(goesOn), never(noBytes)}},
	{client, killed, [moments]cell{ // as by close(2)
		seenByServer(getsFIN), seenByServer(getsFIN), seenByServer(getsRST), seenByServer(getsRST), seenByServer(getsFIN)}},
	{client, cutOff, [moments]cell{
		seenByServer(gone), seenByServer(byUnacked), seenByServer(byUnacked), seenByServer(byUnacked), seenByServer(byUnacked)}},

	{server, resets, [moments]cell{
		seenByClient(getsRST), seenByClient(getsRST), seenByClient(getsRST), seenByClient(getsRST), seenByClient(getsRST)}},
	{server, closes, [moments]cell{
		never(noFlow), seenByClient(getsFIN), seenByClient(getsRST), seenByClient(getsFIN), seenByClient(getsRST)}},
	{server, halfCloses, [moments]cell{
		never(noFlow), seenByClient(getsFIN), seenByClient(getsFIN), seenByClient(getsFIN), never(saidFIN)}},
	{server, stalls, [moments]cell{
		seenByClient(byConnect), seenByClient(goesOn), seenByClient(goesOn), seenByClient(goesOn), never(saysNil)}},
	{server, shutWindow, [moments]cell{
		never(noFlow), seenByClient(goesOn), seenByClient(goesOn), never(noBytes), seenByClient(goesOn)}},
	{server, killed, [moments]cell{
		seenByClient(getsRST), seenByClient(getsFIN), seenByClient(getsRST), seenByClient(getsFIN), seenByClient(getsRST)}},
	{server, cutOff, [moments]cell{
		seenByClient(byConnect), seenByClient(byUnacked), seenByClient(byUnacked), seenByClient(byUnacked), seenByClient(byUnacked)}},

	{first, resets, [moments]cell{
		{client: byStop, server: gone}, seenByBoth(byStop), seenByBoth(byStop), seenByBoth(byStop), seenByBoth(byStop)}},
	{first, closes, alwaysNever(noFIN)},
	{first, halfCloses, alwaysNever(noFIN)},
	{first, stalls, [moments]cell{
		seenByBoth(goesOn), seenByBoth(goesOn), seenByBoth(goesOn), seenByBoth(goesOn), seenByBoth(goesOn)}},
	{first, shutWindow, alwaysNever(asStall)}, // which shuts its windows, mid-body
	{first, killed, [moments]cell{
		{client: losesRST, server: gone}, seenByBoth(losesRST), seenByBoth(losesRST), seenByBoth(losesRST), seenByBoth(losesRST)}},
	{first, cutOff, [moments]cell{
		{client: nothing, server: gone}, {client: nothing, server: byUnacked}, {client: nothing, server: byUnacked},
		{client: nothing, server: byUnacked}, {client: nothing, server: byUnacked}}},

	{second, resets, [moments]cell{
		{client: byStop, server: gone}, seenByBoth(byStop), seenByBoth(byStop), seenByBoth(byStop), seenByBoth(byStop)}},
	{second, closes, alwaysNever(noFIN)},
	{second, halfCloses, alwaysNever(noFIN)},
	{second, stalls, [moments]cell{
		seenByBoth(goesOn), seenByBoth(goesOn), seenByBoth(goesOn), seenByBoth(goesOn), seenByBoth(goesOn)}},
	{second, shutWindow, alwaysNever(asStall)}, // which shuts its windows, mid-body
	{second, killed, [moments]cell{
		{client: losesRST, server: gone}, seenByBoth(losesRST), seenByBoth(losesRST), seenByBoth(losesRST), seenByBoth(losesRST)}},
	{second, cutOff, [moments]cell{
		{client: byUnacked, server: gone}, {client: byUnacked, server: nothing}, {client: byUnacked, server: nothing},
		{client: byUnacked, server: nothing}, {client: byUnacked, server: nothing}}},

	{between, cutOff, [moments]cell{
		{client: byUnacked, server: gone}, seenByBoth(byUnacked), seenByBoth(byUnacked), seenByBoth(byUnacked), seenByBoth(byUnacked)}},
}

const document = "../docs/relay-faults.md"

var update = flag.Bool("update", false, "write the tables of "+document)

// text is a cell in the document.
func (c cell) text() string {
	switch {
	case c.never != "":
		return "– (" + c.never + ")"
	case c.client == c.server:
		return string(c.client)
	case c.client == "":
		return string(c.server)
	case c.server == "":
		return string(c.client)
	}
	return fmt.Sprintf("client: %s; server: %s", c.client, c.server)
}

// heading returns the heading of an actor's table.
func (a actor) heading() string {
	switch a {
	case client:
		return string(a) + " fails: what the server sees"
	case server:
		return string(a) + " fails: what the client sees"
	}
	return string(a) + " fails: what both see"
}

// tables returns the faults as Markdown tables.
func tables() string {
	var b strings.Builder
	b.WriteString("| Seen | Meaning |\n|---|---|\n")
	for _, l := range legend {
		fmt.Fprintf(&b, "| %s | %s |\n", l.view, l.text)
	}
	var before actor
	for _, r := range faults {
		if r.actor != before {
			fmt.Fprintf(&b, "\n### %s\n\n| | %s |\n|---|%s\n", r.heading(), strings.Join(momentNames[:], " | "), strings.Repeat("---|", int(moments)))
			before = r.actor
		}
		fmt.Fprintf(&b, "| %s |", r.fault)
		for m, c := range r.cells {
			text := c.text()
			if m > 0 && !r.canBe() {
				text = "–" // the first cell has the reason
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n### Before SYN-ACK, with `early_syn`\n\n| | seen by | optimistic | connect-first |\n|---|---|---|---|\n")
	for _, r := range earlyFaults {
		fmt.Fprintf(&b, "| %s: %s | the %s | %s | %s |\n", r.actor, r.fault, r.seenBy(), r.optimistic, r.connectFirst)
	}
	return b.String()
}

// TestTableInDocument compares the document's tables with the tested ones.
func TestTableInDocument(t *testing.T) {
	const from, to = "<!-- tables: go test ./relay -run TestTableInDocument -update -->\n\n", "\n<!-- end of tables -->\n"
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), from)
	old, after, found := strings.Cut(rest, to)
	if !ok || !found {
		t.Fatalf("%s has no %q and %q", document, from, to)
	}
	want := tables()
	if *update {
		if err := os.WriteFile(document, []byte(before+from+want+to+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != want {
		t.Errorf("the tables of %s differ from the tested ones (-update rewrites them):\n%s", document, want)
	}
}

// TestTableIsWhole checks that each fault is in the table once, with an observation or a reason for each moment.
func TestTableIsWhole(t *testing.T) {
	known := make(map[view]bool)
	for _, l := range legend {
		known[l.view] = true
	}
	seen := make(map[string]bool)
	for _, r := range faults {
		tested := 0
		for _, s := range series {
			if s.has(r.actor, r.fault) {
				tested++
			}
		}
		if tested != 1 && r.canBe() {
			t.Errorf("%s, %s: in %d series, want one", r.actor, r.fault, tested)
		}
		key := fmt.Sprint(r.actor, ": ", r.fault)
		if seen[key] {
			t.Errorf("%s: twice", key)
		}
		seen[key] = true
		for m, c := range r.cells {
			says := 0
			for _, v := range []view{c.client, c.server} {
				if v != "" {
					says++
				}
				if v != "" && !known[v] {
					t.Errorf("%s, %s: %q is not in the legend", key, momentNames[m], v)
				}
			}
			want := 2
			switch {
			case c.never != "":
				want = 0
			case r.actor == client, r.actor == server:
				want = 1
			}
			if says != want {
				t.Errorf("%s, %s: %d ends see something, want %d", key, momentNames[m], says, want)
			}
		}
	}
	for _, a := range []actor{client, server, first, second} {
		for _, f := range []fault{resets, closes, halfCloses, stalls, shutWindow, killed, cutOff} {
			if !seen[fmt.Sprint(a, ": ", f)] {
				t.Errorf("%s, %s: not in the table", a, f)
			}
		}
	}
}
