// Texts of times, numbers and addresses.

const zoneKey = "baton.zone";

/** zone is the time zone of all times: that of the browser, or UTC. */
export const zone = {
	local: Intl.DateTimeFormat().resolvedOptions().timeZone,
	get utc(): boolean {
		return sessionStorage.getItem(zoneKey) === "UTC";
	},
	set utc(on: boolean) {
		if (on) sessionStorage.setItem(zoneKey, "UTC");
		else sessionStorage.removeItem(zoneKey);
		made = undefined;
	},
};

interface Formats {
	time: Intl.DateTimeFormat;
	day: Intl.DateTimeFormat;
}
let made: Formats | undefined;

function formats(): Formats {
	const timeZone = zone.utc ? "UTC" : zone.local;
	made ??= {
		time: new Intl.DateTimeFormat("en-GB", { timeZone, hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 }),
		day: new Intl.DateTimeFormat("en-CA", { timeZone, year: "numeric", month: "2-digit", day: "2-digit" }),
	};
	return made;
}

const never = (ms: number): boolean => Number.isNaN(ms) || ms <= 0; // Go's zero time is of the year 1

/** time is the time of day, with the day if it is not today. */
export function time(at: string | number): string {
	const ms = typeof at === "number" ? at : Date.parse(at);
	if (never(ms)) return "–";
	const { time, day } = formats();
	const that = day.format(ms);
	return that === day.format(Date.now()) ? time.format(ms) : `${that} ${time.format(ms)}`;
}

/** clock is the time of day without fractions. */
export const clock = (ms: number): string => time(ms).slice(0, -4);

/** age is how long ago something was. */
export function age(at: string, now: number): string {
	const ms = Date.parse(at);
	if (never(ms)) return "–";
	const s = Math.max(0, Math.round((now - ms) / 1000));
	if (s < 60) return `${s} s`;
	if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
	if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
	return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

/** took is a duration in nanoseconds. */
export function took(ns: number): string {
	if (ns < 1e3) return `${ns} ns`;
	if (ns < 1e6) return `${digits(ns / 1e3)} µs`;
	if (ns < 1e9) return `${digits(ns / 1e6)} ms`;
	return `${digits(ns / 1e9)} s`;
}

/** digits is a number with three figures. */
export function digits(n: number): string {
	const a = Math.abs(n);
	return a >= 100 || Number.isInteger(n) ? count(Math.round(n)) : a >= 10 ? n.toFixed(1) : n.toFixed(2);
}

const grouped = new Intl.NumberFormat("en-GB");
export const count = (n: number): string => grouped.format(n);

/** plural is a number with its noun. */
export const plural = (n: number, one: string, many = `${one}s`): string => `${count(n)} ${n === 1 ? one : many}`;

/** short cuts a text that has no room. */
export const short = (s: string, n: number): string => (s.length <= n ? s : `${s.slice(0, Math.max(1, n - 1))}…`);

const natural = new Intl.Collator("en", { numeric: true });
export const compare = (a: string, b: string): number => natural.compare(a, b) || (a < b ? -1 : a > b ? 1 : 0);
