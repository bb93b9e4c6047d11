import { request } from "../lib/api";

/** How many objects of a kind there are. The smallest page has ten. */
export async function totalOf(kind: string): Promise<number> {
  return (await request<{ total: number }>(`/${kind}?page=1&page_size=10`)).total;
}
