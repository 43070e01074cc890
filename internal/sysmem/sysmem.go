// Package sysmem reads how much memory a process may use: [Available] what is free now, [RAM] and
// [RAMAndSwap] what there is. Each is the least of what the machine has and of what the control
// groups (cgroups, versions 1 and 2) of the process and all their ancestors allow. Only Linux is
// known.
package sysmem
