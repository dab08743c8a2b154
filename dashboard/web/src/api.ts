// Generated from package api by `go generate ./dashboard`; do not edit. Times are RFC 3339, durations nanoseconds.

export interface ControllerPort {
	number: number;
	name: string;
	mac: string;
	up: boolean;
	faces: string;
}

export interface ControllerSwitch {
	id: string;
	name: string;
	maker?: string;
	core: boolean;
	role: string;
	up: boolean;
	since: string;
	remote?: string;
	flows: number;
	ports: ControllerPort[] | null;
}

export interface ControllerPoint {
	switch: string;
	port: number;
}

export interface ControllerLink {
	from: ControllerPoint;
	to: ControllerPoint;
	since: string;
}

export interface ControllerHost {
	name?: string;
	kind: string;
	mac: string;
	addresses: string[] | null;
	at: ControllerPoint;
	seen: string;
}

export interface ControllerTopology {
	switches: ControllerSwitch[] | null;
	links: ControllerLink[] | null;
	hosts: ControllerHost[] | null;
}

export interface RouterLeg {
	local: string;
	remote: string;
}

export interface ControllerSession {
	client: string;
	service: string;
	state: string;
	since: string;
	surrogate?: string;
	leg?: RouterLeg;
	handoff?: number;
}

export interface ControllerStep {
	at_ns: number;
	kind: string;
	from: string;
	to: string;
	label: string;
}

export interface ControllerHandoff {
	id: number;
	client: string;
	service: string;
	leg: RouterLeg;
	surrogate: string;
	request?: string;
	began: string;
	took_ns?: number;
	failure?: string;
	steps: ControllerStep[] | null;
}

export interface ControllerSurrogate {
	name: string;
	site?: string;
	address: string;
	up: boolean;
	error?: string;
	state: string;
	weight: number;
	sessions: number;
	handoffs: number;
	legs: number;
	rate: number;
}

export interface RoutingDecision {
	time: string;
	method: string;
	client: string;
	name: string;
	path?: string;
	site?: string;
	surrogate?: string;
	because: string[] | null;
}

export interface ControllerRates {
	time: string;
	packet_ins: number;
	flow_mods: number;
	handshakes: number;
	handoffs: number;
	failures: number;
	surrogates: Record<string, number> | null;
}

export interface ControllerSurrogateChange {
	weight?: number;
	state?: string;
}
