package apply

func slowOutput([]string) error  { return nil }
func twoOutputs([]string) error  { return nil }
func largeRaster([]string) error { return nil }
