package lockfile

// The kernel's lock goes with the open file, which a mapping keeps.
const mappingCarriesLock = true
