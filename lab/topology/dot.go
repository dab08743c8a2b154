package topology

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// Colours of a picture: a fill and a frame for each kind of node. They differ in lightness too, and the kinds in shape.
const (
	hostFill, hostFrame     = "#eef4fb", "#3b6ea5"
	routerFill, routerFrame = "#fdf1dc", "#b7791f"
	bridgeFill, bridgeFrame = "#eeeeee", "#666666"
	switchFill, switchFrame = "#e6f4ea", "#2f7d4a"
	linkColour, downColour  = "#555555", "#c0392b"
)

// DOT is the topology as a picture's source for Graphviz: hosts with their interfaces, addresses and processes; links with
// what they do to packets. Links that are down are dashed, those to a switch's controller dotted.
func (t *Topology) DOT(down map[string]bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "graph %s {\n", strconv.Quote(t.Name))
	b.WriteString("  rankdir=LR; nodesep=0.45; ranksep=1.1; pad=0.3; bgcolor=white; fontname=\"Helvetica\";\n")
	b.WriteString("  node [shape=plain fontname=\"Helvetica\" fontsize=11];\n")
	b.WriteString("  edge [fontname=\"Helvetica\" fontsize=10 penwidth=1.4];\n")
	for _, h := range t.Hosts {
		fmt.Fprintf(&b, "  %s [label=<%s>];\n", strconv.Quote(h.Name), t.hostLabel(h))
	}
	for _, s := range t.Bridges {
		fmt.Fprintf(&b, "  %s [shape=box style=filled fillcolor=%q color=%q margin=\"0.15,0.05\" label=<<b>%s</b><br/>bridge>];\n",
			strconv.Quote(s.Name), bridgeFill, bridgeFrame, s.Name)
	}
	for _, s := range t.Switches {
		text := "Open vSwitch"
		if s.Controller != "" {
			text += "<br/>" + html.EscapeString(s.Controller)
		}
		fmt.Fprintf(&b, "  %s [shape=hexagon margin=0 style=filled fillcolor=%q color=%q label=<<b>%s</b><br/>%s>];\n",
			strconv.Quote(s.Name), switchFill, switchFrame, s.Name, text)
	}
	for _, k := range t.Links {
		colour, style := linkColour, "solid"
		if t.leadsToController(k) {
			style = "dotted"
		}
		if down[k.Name] {
			colour, style = downColour, "dashed"
		}
		fmt.Fprintf(&b, "  %s -- %s [color=%q style=%s fontcolor=%q label=<%s>];\n",
			t.at(&k.A), t.at(&k.B), colour, style, colour, strings.Join(linkLabel(k, down[k.Name]), "<br/>"))
	}
	b.WriteString("}\n")
	return b.String()
}

// leadsToController: such a link carries none of the switch's packets.
func (t *Topology) leadsToController(k *Link) bool {
	isPort := t.ports()
	return slices.ContainsFunc([]*End{&k.A, &k.B}, func(e *End) bool { return t.Host(e.Host) == nil && !isPort(e) })
}

// at is where an edge ends: at the row of its interface, or at a bridge or switch.
func (t *Topology) at(e *End) string {
	if t.Host(e.Host) == nil {
		return strconv.Quote(e.Host)
	}
	return strconv.Quote(e.Host) + ":" + strconv.Quote(e.Interface)
}

func (t *Topology) hostLabel(h *Host) string {
	fill, frame, kind := hostFill, hostFrame, ""
	if h.Forward {
		fill, frame, kind = routerFill, routerFrame, ` <font color="`+routerFrame+`">router</font>`
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<table border="1" style="rounded" cellborder="0" cellspacing="0" cellpadding="3" bgcolor=%q color=%q>`, fill, frame)
	fmt.Fprintf(&b, `<tr><td><b>%s</b>%s</td></tr>`, h.Name, kind)
	row := func(port, text, colour string) {
		attr := ""
		if port != "" {
			attr = fmt.Sprintf(` port=%q`, port)
		}
		fmt.Fprintf(&b, `<tr><td align="left"%s><font point-size="9" color=%q>%s</font></td></tr>`, attr, colour, text)
	}
	for _, a := range h.Addresses {
		text := a.String()
		if slices.ContainsFunc(t.Anycast, func(c Anycast) bool { return c.Address == a }) {
			text += " (anycast)"
		}
		row("", text, "#333333")
	}
	for _, e := range t.At(h.Name) {
		lines := []string{e.Interface}
		for i, p := range e.Addresses {
			if i == 0 {
				lines[0] += " " + p.String()
			} else {
				lines = append(lines, p.String())
			}
		}
		row(e.Interface, strings.Join(lines, `<br align="left"/>`)+`<br align="left"/>`, "#333333")
	}
	for _, p := range h.Processes {
		row("", "▸ "+html.EscapeString(p.Name), frame)
	}
	b.WriteString("</table>")
	return b.String()
}

// linkLabel says what a link does, each direction for itself where they differ.
func linkLabel(k *Link, down bool) []string {
	var lines []string
	if k.Name != k.A.Host+"-"+k.B.Host {
		lines = append(lines, "<b>"+k.Name+"</b>")
	}
	there, back := Describe(k.AToB), Describe(k.BToA)
	switch {
	case there == back && there != "":
		lines = append(lines, wrapped(there)...)
	case there != back:
		for _, direction := range []struct{ to, does string }{{k.B.Host, there}, {k.A.Host, back}} {
			if direction.does == "" {
				direction.does = "unlimited"
			}
			lines = append(lines, wrapped("to "+direction.to+": "+direction.does)...)
		}
	}
	if k.MTU > 0 {
		lines = append(lines, fmt.Sprintf("mtu %d", k.MTU))
	}
	if down {
		lines = append(lines, "down")
	}
	return lines
}

// wrapped breaks a text at its commas for a label; a long line would push the hosts apart.
func wrapped(text string) []string {
	lines := []string{""}
	for part := range strings.SplitAfterSeq(text, ", ") {
		if last := lines[len(lines)-1]; last != "" && len(last)+len(part) > 40 {
			lines = append(lines, "")
		}
		lines[len(lines)-1] += html.EscapeString(part)
	}
	return lines
}

// Draw has Graphviz draw a picture's source in a format of dot(1): svg, png or pdf.
func Draw(ctx context.Context, source, format string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "dot", "-T"+format)
	cmd.Stdin = strings.NewReader(source)
	var out, diagnosis bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diagnosis
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("draw with Graphviz (dot): %w: %s", err, bytes.TrimSpace(diagnosis.Bytes()))
	}
	return out.Bytes(), nil
}
