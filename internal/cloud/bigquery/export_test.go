package bigquery

// Hurry has the client ask again at once.
func (c *Client) Hurry() { c.pause = 1 }
