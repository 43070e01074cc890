package lockfile

// A lock belongs to the open file, which a mapping keeps.
const mappingCarriesLock = true
