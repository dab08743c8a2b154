package switches

// Priorities of the flow entries of all modules, in table 0 of each switch. A packet meets the entry with the greatest.
// docs/controller.md has the table for users.
const (
	// PriorityDiscovery: LLDP, and what hosts ask and announce, to the controller. ModuleDiscovery.
	PriorityDiscovery = 1000
	// PrioritySigns: SYNs to services, RSTs of surrogates, to the controller. ModuleHandoff, as those before PriorityPath.
	PrioritySigns = 310
	// PriorityEnd: a client's FIN or RST after a handoff, to the controller, too.
	PriorityEnd = 302
	// PriorityAnswer: a surrogate's first packets after a handoff, to the controller, too.
	PriorityAnswer = 301
	// PriorityHanded: sessions that were handed over.
	PriorityHanded = 300
	// PriorityPassed: sessions that the request router serves itself, not to the controller.
	PriorityPassed = 250
	// PriorityWatched: sessions to and from services, to the controller.
	PriorityWatched = 200
	// PriorityPath: a destination, or a pair of hosts. ModulePaths.
	PriorityPath = 100
	// PriorityMiss: everything else, to the controller. ModuleDiscovery.
	PriorityMiss = 0
)

// Owner is the top byte of the cookies of Baton's flow entries; the byte after it is the module.
const Owner uint64 = 0xb7 << 56

// Modules of cookies.
const (
	ModulePaths     uint64 = 1
	ModuleHandoff   uint64 = 2
	ModuleDiscovery uint64 = 3
)

// Masks of cookies: of every module, and of one.
const (
	OwnerMask  uint64 = 0xff << 56
	ModuleMask uint64 = 0xffff << 48
)

// Cookie returns that of a module's entry: the owner, the module, two bytes of zero, and a number of the module's own.
func Cookie(module uint64, id uint32) uint64 { return Owner | module<<48 | uint64(id) }
