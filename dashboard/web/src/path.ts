// The path of a session through the network.

import type { ControllerHost, ControllerSession, ControllerTopology } from "./api.ts";
import { graph, hostName, walk } from "./graph.ts";

export interface Path {
	hosts: Set<string>; // MAC addresses
	switches: string[];
	ends: [string, string]; // names
}

/** addressOf is an address without its port. */
export function addressOf(point: string): string {
	const colon = point.lastIndexOf(":");
	return (colon < 0 ? point : point.slice(0, colon)).replace(/^\[|\]$/g, "");
}

/** pathOf is a shortest path of a session over switches that are up: to its surrogate once it was handed off, before that to the request router. */
export function pathOf(t: ControllerTopology, s: ControllerSession): Path | undefined {
	const hosts = t.hosts ?? [];
	const at = (address: string) => hosts.find((h) => h.addresses?.includes(address));
	const client = at(addressOf(s.client));
	const far = otherEnd(hosts, s, at);
	if (client === undefined || far === undefined) return undefined;
	const up = { ...t, switches: (t.switches ?? []).filter((s) => s.up) };
	const switches = walk(graph(up), client.at.switch, far.at.switch);
	if (switches.length === 0) return undefined;
	return { hosts: new Set([client.mac, far.mac]), switches, ends: [hostName(client), hostName(far)] };
}

function otherEnd(hosts: ControllerHost[], s: ControllerSession, at: (address: string) => ControllerHost | undefined): ControllerHost | undefined {
	if (s.state === "handed-off" && s.leg?.remote) return at(addressOf(s.leg.remote)) ?? hosts.find((h) => h.name === s.surrogate);
	return at(addressOf(s.service)) ?? (s.leg?.local ? at(addressOf(s.leg.local)) : undefined) ?? hosts.find((h) => h.kind === "router");
}
