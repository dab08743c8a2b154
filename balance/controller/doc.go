// Package controller is the OpenFlow 1.3 application that has a host's flows spread over its links: it keeps the tables of a switch as package
// tables makes them, is the gateway of the host's inside to ARP, neighbour discovery and ping, and, where the method is
// config.Controller, chooses the link of each flow itself, as algorithm 1 of "Pushing SDN to the End-Host" (Al-Najjar, Layeghy,
// Portmann, 2016) does. It asks nothing of a switch that is not in OpenFlow 1.3.5, unless the tables do.
//
// What happens to a packet is decided by a machine that knows no connection and no clock (machine.go); its tests are transcripts.
// [Controller] gives it the messages of a channel, and sends what it answers.
package controller
