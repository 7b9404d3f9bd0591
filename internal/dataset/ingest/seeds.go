package ingest

// Seeds keep the uses of the hash independent, so that a row's split says nothing about its fold. They are documented
// in FORMAT.md: changing one would move rows to other splits.
const (
	seedSplit = 0x73706c6974
	seedBins  = 0x62696e73
	seedTest  = 0x73616d706c65
	seedThin  = 0x7468696e
	seedNight = 0x6e69676874
)
